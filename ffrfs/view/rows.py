"""Features as rows of a table: the first values, and bytes by their type.

Records are hostile: whatever they hold, a row has a bounded number of values. Stateless; any
thread.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ffrfs.convert.example_json import float_text
from ffrfs.errors import FormatError
from ffrfs.files.kind import content_kind, text_of
from ffrfs.tfrecord.examples.content import content
from ffrfs.tfrecord.examples.tensor import parse_tensor, tensor_type
from ffrfs.tfrecord.examples.tfds_features import shape_text
from ffrfs.view.features import Column, Declared
from ffrfs.view.safe_bytes import safe_type

PREVIEW_COUNT = 8
_STEPS_SHOWN_MAX = 100
_HEX_SIZE_MAX = 32
_TEXT_LENGTH_MAX = 100
_TENSOR_COUNT_MAX = 100_000
_TENSOR_SIZE_MAX = 4 << 20
_UNPACKED_SIZE_MAX = 4096


@dataclass(frozen=True, slots=True)
class Bytes:
    """A value. `what`: image, audio, video, text, tensor, compressed or bytes."""

    what: str
    text: str
    size: int
    index: int
    base64: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """A feature in a table. `values`: the first of `count`. `classes`: the names of labels."""

    name: str
    path: str
    kind: str
    declared: str
    count: int
    values: list[Any]
    classes: list[str]
    step_count: int | None  # of a feature list
    steps: list[list[Any]]  # the first values of its first steps


def row(column: Column, declared: Declared | None, count_max: int, base64_max: int) -> Row:
    """Return a row of at most `count_max` values, and `base64_max` bytes of them as base64."""
    values = column.values[:count_max]
    classes = declared.classes if declared and column.kind == "int64" else []
    steps = (column.steps or [])[: min(_STEPS_SHOWN_MAX, count_max)]
    return Row(
        column.name,
        column.path,
        column.kind,
        declared.text if declared else "",
        len(column.values),
        _shown(values, base64_max),
        [classes[one] for one in values if 0 <= one < len(classes)] if classes else [],
        None if column.steps is None else len(column.steps),
        [_shown(content(step)[1][:PREVIEW_COUNT], 0) for step in steps],
    )


def _shown(values: Sequence[Any], base64_max: int) -> list[Any]:
    shown: list[Any] = []
    for index, value in enumerate(values):
        if isinstance(value, bytes):
            is_whole = len(value) <= base64_max
            base64_max -= len(value) if is_whole else 0
            encoded = base64.b64encode(value).decode() if is_whole else None
            shown.append(Bytes(*_described(value), len(value), index, encoded))
        elif isinstance(value, float):  # JSON has no NaN
            text = float_text(value)
            shown.append(float(text) if math.isfinite(value) else text)
        else:
            shown.append(value)
    return shown


def _described(value: bytes) -> tuple[str, str]:
    """Return the kind of the bytes, and a text about them, or the text that they hold."""
    text = text_of(value)
    if text is not None:
        return "text", text
    if media := safe_type("", value[:32]):
        return media.split("/")[0], media.split("/")[1].upper()
    if tensor := tensor_type(value):
        return "tensor", _tensor_text(value, *tensor)
    if value[:1] in (b"\x1f", b"\x78"):
        try:
            unpacked = zlib.decompressobj(47).decompress(value, _UNPACKED_SIZE_MAX)
            packing = "zlib" if value[0] == 0x78 else "gzip"
            return "compressed", f"{packing} of {_kind(unpacked)}"
        except zlib.error:
            pass
    return "bytes", _kind(value)


def _tensor_text(value: bytes, dtype: str, shape: tuple[int, ...]) -> str:
    text = f"{dtype} {shape_text(shape)}"
    if math.prod(shape) > _TENSOR_COUNT_MAX or len(value) > _TENSOR_SIZE_MAX:
        return text
    try:
        first = parse_tensor(value, np.dtype(dtype)).reshape(-1)[:PREVIEW_COUNT]
    except FormatError as error:
        return f"{text}: {error}"
    dots = " …" * (math.prod(shape) > len(first))
    return f"{text}: {', '.join(str(one)[:40] for one in first)}{dots}"


def _kind(value: bytes) -> str:
    kind, text = content_kind(value), text_of(value)
    if kind or text:
        return kind.name if kind else repr((text or "")[:_TEXT_LENGTH_MAX])
    return value[:_HEX_SIZE_MAX].hex(" ") + " …" * (len(value) > _HEX_SIZE_MAX)
