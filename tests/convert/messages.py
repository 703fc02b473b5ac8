"""Serializes Examples for the tests of convert, and reads the results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ffrfs.convert.convert import ConvertSummary, convert
from ffrfs.errors import FormatError
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


def check_bad_line(folder: Path, line: bytes, reason: str) -> None:
    """Assert that convert names the line, writing nothing, and can leave it out."""
    file = folder / "x.jsonl"
    file.write_bytes(b'{"a": 1}\n%b\n{"a": 2}\n' % line)
    with pytest.raises(FormatError) as caught:
        convert(file, folder / "y.tfrecord")
    assert str(caught.value).startswith(f"{file}: line 2: ")
    assert reason in str(caught.value)
    assert not (folder / "y.tfrecord").exists()
    assert convert(file, folder / "y.tfrecord", on_error="skip") == ConvertSummary(2, 1)
