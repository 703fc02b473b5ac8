"""Shows a record as lines for people: one for each feature of an Example.

Contents of files are hostile: names and texts are escaped, and shortened. Not here: all values
(example_json.py), printing (ffrfs.cli). No state: safe from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from ffrfs.convert.example_json import float_text, parse_record
from ffrfs.files.kind import TEXT_SIZE, content_kind, text_of
from ffrfs.printable import printable
from ffrfs.tfrecord.examples.content import FeatureKind, content, features_in
from ffrfs.tfrecord.examples.example import Example, Feature, SequenceExample

# Limits for a line.
_VALUES_MAX = 8
_STEPS_MAX = 8
_TEXT_LENGTH_MAX = 60
_NAME_LENGTH_MAX = 100
_NAME_WIDTH_MAX = 32
_HEX_SIZE_MAX = 16


def lines(number: int, record: bytes) -> Iterator[str]:
    """Yield the lines of record `number`, all of them printable."""
    message = parse_record(record)
    size = _count(len(record), "byte")
    if message is None:
        yield f"record {number}: not an Example: {_bytes(record)}"
        return
    yield f"record {number}: {type(message).__name__}, {size}"
    yield from _table(list(_rows(message)))


def _table(rows: list[tuple[str, str, str]]) -> Iterator[str]:
    name_width = max((min(len(name), _NAME_WIDTH_MAX) for name, _, _ in rows), default=0)
    type_width = max((len(kind) for _, kind, _ in rows), default=0)
    for name, kind, values in rows:
        yield f"  {name:<{name_width}}  {kind:<{type_width}}  {values}".rstrip()


def _rows(message: Example | SequenceExample) -> Iterator[tuple[str, str, str]]:
    features, lists = features_in(message)
    for name in sorted(features):
        yield (shown_name(name), *_feature(features[name]))
    for name in sorted(lists):
        steps = lists[name].feature
        for i, step in enumerate(islice(steps, _STEPS_MAX)):
            yield (f"{shown_name(name)}[{i}]", *_feature(step))
        if len(steps) > _STEPS_MAX:
            yield f"{shown_name(name)}[…]", "", f"{_count(len(steps), 'step')} in all"
        elif not steps:
            yield f"{shown_name(name)}[]", "", "no steps"


def shown_name(name: str) -> str:
    """Return a feature's name for a line: printable, and shortened."""
    return _shortened(name, _NAME_LENGTH_MAX) or '""'


def _feature(feature: Feature) -> tuple[str, str]:
    """Return a feature's type with the number of values, and the first of these."""
    kind, values = content(feature)
    if kind == "none":
        return kind, ""
    shown = [_SHOWN[kind](value) for value in islice(values, _VALUES_MAX)]
    if len(values) > _VALUES_MAX:
        shown.append("…")
    return kind + ("" if len(values) == 1 else f"[{len(values)}]"), ", ".join(shown)


def _bytes(value: bytes) -> str:
    size = _count(len(value), "byte")
    kind = content_kind(value)
    if kind is not None:
        return f"{kind.name} ({size})"
    text = text_of(value)
    if text is None:
        return f"{size} {value[:_HEX_SIZE_MAX].hex()}{'…' if len(value) > _HEX_SIZE_MAX else ''}"
    if len(text) <= _TEXT_LENGTH_MAX and len(value) <= TEXT_SIZE:
        return f'"{printable(text)}"'
    return f'"{_shortened(text, _TEXT_LENGTH_MAX)}" (UTF-8 text, {size})'


_SHOWN: dict[FeatureKind, Callable[[Any], str]] = {
    "bytes": _bytes,
    "float": float_text,
    "int64": str,
}


def _shortened(text: str, length: int) -> str:
    return printable(text) if len(text) <= length else f"{printable(text[:length])}…"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
