"""Examples, and the folders that a mount must show for them. This is written from the format
and from the promises of docs/semantics.md, independently of ffrfs.

A feature is (kind, values): {"label": ("int64_list", [7]), "missing": None}. The golden files'
JSON has the same form, but writes bytes in hexadecimal. A name may be any bytes, as
os.fsdecode() gives them.
"""

from __future__ import annotations

import io
import os
import random
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.mount import probes
from tests.mount.command import Mount

Feature = tuple[str, list[Any]] | None
Features = Mapping[str, Feature]
FeatureLists = Mapping[str, Sequence[Feature]]

KINDS = {"bytes_list": 1, "float_list": 2, "int64_list": 3}
DTYPES = {"float_list": "<f4", "int64_list": "<i8"}


def golden_feature(value: dict[str, list[Any]] | None) -> Feature:
    if value is None:
        return None
    ((kind, values),) = value.items()
    return kind, [bytes.fromhex(each) for each in values] if kind == "bytes_list" else values


def golden_features(values: dict[str, Any]) -> Features:
    return {name: golden_feature(value) for name, value in values.items()}


# Writing.


def example(features: Features) -> bytes:
    return _field(1, _features(features))


def _features(features: Features) -> bytes:
    return b"".join(_entry(name, _feature(feature)) for name, feature in features.items())


def _entry(name: str, value: bytes) -> bytes:
    return _field(1, _field(1, os.fsencode(name)) + _field(2, value))


def _feature(feature: Feature) -> bytes:
    if feature is None:
        return b""
    kind, values = feature
    if kind == "bytes_list":
        content = b"".join(_field(1, value) for value in values)
    elif kind == "float_list":
        content = _field(1, struct.pack(f"<{len(values)}f", *values))
    else:
        content = _field(1, b"".join(_varint(value % 2**64) for value in values))
    return _field(KINDS[kind], content)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    data = b""
    while value >= 0x80:
        data += bytes([value & 0x7F | 0x80])
        value >>= 7
    return data + bytes([value])


# The expected tree: path → bytes, None for a folder, an array for a .npy.

Shown = dict[str, "bytes | np.ndarray[Any, Any] | None"]


def shown(record: bytes, features: Features, lists: FeatureLists | None = None) -> Shown:
    """Return the folder of one record, without example.json."""
    found: Shown = {"record.bin": record}
    for name, feature in features.items():
        _show(found, name, feature)
    for name, steps in (lists or {}).items():
        _show_folder(found, name)
        for number, step in enumerate(steps):
            _show(found, f"{name}/{number}", step)
    return found


def _show(found: Shown, name: str, feature: Feature) -> None:
    if feature is None:
        return
    kind, values = feature
    _show_folder(found, name.rpartition("/")[0])
    if kind != "bytes_list":
        found[f"{name}.npy"] = np.array(values, DTYPES[kind])
    elif len(values) == 1:
        found[name + extension(values[0])] = values[0]
    else:
        _show_folder(found, name)
        for number, value in enumerate(values):
            found[f"{name}/{number}{extension(value)}"] = value


def _show_folder(found: Shown, name: str) -> None:
    while name:
        found[name] = None
        name = name.rpartition("/")[0]


def extension(value: bytes) -> str:
    """Return a value's extension, for the kinds of data in the golden files."""
    if value.startswith(b"\xff\xd8\xff"):
        return ".jpg"
    if value.startswith(b"\x89PNG"):
        return ".png"
    return ".txt" if value and value.isascii() and value.decode().isprintable() else ""


def loaded(contents: dict[str, bytes | None]) -> Shown:
    """Return contents read from a mount, with arrays for .npy files."""
    return {
        path: np.load(io.BytesIO(data), allow_pickle=False)
        if data is not None and path.endswith(".npy")
        else data
        for path, data in contents.items()
    }


def same(one: Shown, other: Shown) -> bool:
    return one.keys() == other.keys() and all(
        _same_value(value, other[path]) for path, value in one.items()
    )


def _same_value(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return type(one) is type(other) and one == other


def features(number: int, image_size: int = 60_000) -> Features:
    image = b"\xff\xd8\xff" + random.Random(number).randbytes(image_size)
    return {
        "image/encoded": ("bytes_list", [image]),
        "label": ("int64_list", [number, -number]),
        "box": ("float_list", [number / 2, 0.25]),
        "tags": ("bytes_list", [b"red", b"blue"]),
    }


def image(number: int, image_size: int = 60_000) -> bytes:
    found = features(number, image_size)["image/encoded"]
    assert found is not None
    value: bytes = found[1][0]
    return value


def record_contents(tree: Mount, number: int) -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = tree.ask(probes.contents, f"{number:09d}")
    return found


def check_record(tree: Mount, number: int, values: Features) -> None:
    contents = record_contents(tree, number)
    assert contents.pop("example.json")
    assert same(loaded(contents), shown(example(values), values))
