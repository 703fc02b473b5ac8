"""Serializes Examples for the tests of convert, and reads the results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ffrfs.tfrecord import Example, from_dict, to_dict
from tests.tfrecord_file import tfrecord_records


def serialized(values: Mapping[str, object]) -> bytes:
    message: bytes = from_dict(values).SerializeToString(deterministic=True)
    return message


def records_of(path: Path) -> list[bytes]:
    return tfrecord_records(path.read_bytes())


def examples_of(path: Path) -> list[dict[str, Any]]:
    found = [to_dict(Example.FromString(record)) for record in records_of(path)]
    return [{name: list(values) for name, values in each.items()} for each in found]
