"""Examples as flat objects of JSON, as other programs write them: names, and a value or a list.

    {"text": "a dog", "label": 3, "box": [0.5, 1]}

A text becomes bytes in UTF-8, true and false become 1 and 0; null is a feature that the Example
lacks. A name has one type in all lines: integers become floats if any line has a float.
Not here: the form that holds every Example (example_json.py), files (json_lines.py).
Concurrency: one thread at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ffrfs.convert.example_json import Json, float_text, to_float, to_int
from ffrfs.tfrecord.examples.example import Example, Feature, Features, feature_name, make_feature

_NAMES_MAX = 10_000  # the types of all names are in memory; a table has as many columns
_KINDS = {int: "int64_list", bool: "int64_list", float: "float_list", str: "bytes_list"}
_NUMBERS = {"int64_list", "float_list"}
_FORMS = ({"features"}, {"context", "feature_lists"})  # of example_json.py


def is_flat(value: object) -> bool:
    return isinstance(value, dict) and value.keys() not in _FORMS


class FlatTypes:
    """The type of each name. All lines are noted first, and become messages then."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}

    def note(self, value: Json) -> None:
        """Note the types of a line. Raises ValueError, noting nothing, for a value that has none,
        or another type than before.
        """
        kinds: dict[str, str] = {}
        for name, item in value.items():
            for kind in _kinds_of(name, item):
                known = kinds.get(name) or self._kinds.get(feature_name(name), kind)
                kinds[name] = _joined(name, known, kind)
        if len(self._kinds) + len(kinds.keys() - self._kinds) > _NAMES_MAX:
            raise ValueError(f"more than {_NAMES_MAX:,} different names in all lines")
        self._kinds |= kinds

    def message(self, value: Json) -> Example:
        """Return the Example of a line. Raises ValueError as note(), and if numbers do not fit."""
        features = {
            feature_name(name): self._feature(name, item)
            for name, item in value.items()
            if item is not None
        }
        return Example(features=Features(feature=features))

    def _feature(self, name: str, item: object) -> Feature:
        found = _kinds_of(name, item)
        kind = self._kinds.get(name)
        if kind is None and not found:
            return Feature()  # an empty list in every line
        if kind is None:
            raise ValueError(f'"{name}" is in no line that can be converted')
        for each in found:
            _joined(name, kind, each)
        converters: dict[str, Callable[[Any], object]] = {
            "bytes_list": str.encode,
            "float_list": lambda number: to_float(float(number)),
            "int64_list": lambda number: to_int(int(number)),
        }
        try:
            return make_feature(kind, list(map(converters[kind], _items(item))))
        except (ValueError, OverflowError) as error:
            raise ValueError(f'"{name}": {error}') from None


def flat_values(row: Mapping[str, Any]) -> Json:
    """Return the flat object of a row (columns.py). Raises ValueError if there is none."""
    if row.keys() in _FORMS:
        names = " and ".join(f'"{name}"' for name in sorted(row))
        raise ValueError(f"a flat line of {names} alone would be taken for the other form")
    return {name: _value(name, value) for name, value in sorted(row.items())}


def _value(name: str, value: object) -> object:
    if isinstance(value, list):
        if not all(isinstance(each, int | float | bytes) for each in value):
            raise ValueError(f'feature "{name}" is no value and no list of values')
        return [_value(name, each) for each in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueError(f'feature "{name}" is not text in UTF-8') from None
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f'feature "{name}" is {value}, which is not a number in JSON')
        return float(float_text(value))
    return value


def _kinds_of(name: str, item: object) -> set[str]:
    kinds = {_KINDS.get(type(each)) for each in _items(item)}
    if None in kinds:
        raise ValueError(
            f'"{name}" is no number, text, or list of them, and a feature has nothing else; '
            "flatten it first"
        )
    return {kind for kind in kinds if kind is not None}


def _joined(name: str, kind: str, other: str) -> str:
    if kind == other:
        return kind
    if {kind, other} == _NUMBERS:
        return "float_list"
    raise ValueError(f'"{name}" is text in some lines and a number in others')


def _items(item: object) -> list[Any]:
    return item if isinstance(item, list) else [] if item is None else [item]
