"""Example and SequenceExample as objects, and to and from dictionaries of NumPy values.

Not here: the message classes (messages.py), parsing into batches (parse.py, which needs no
message objects and is much faster). Concurrency: that of protobuf's messages, which threads
may share as long as none changes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ffrfs.tfrecord.examples.messages import (
    BytesList,
    Example,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
    SequenceExample,
)

__all__ = [
    "BytesList",
    "Example",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FloatList",
    "Int64List",
    "SequenceExample",
    "feature_name",
    "from_dict",
    "make_feature",
    "to_dict",
]

# int64 or float32, 1-D; bytes; None for a feature without a list.
FeatureValue: TypeAlias = NDArray[Any] | list[bytes] | None

_LISTS: dict[str, Any] = {
    "bytes_list": BytesList,
    "float_list": FloatList,
    "int64_list": Int64List,
}
_INT64 = np.iinfo(np.int64)
_FLOAT32_MAX = float(np.finfo(np.float32).max)


def make_feature(kind: str, values: Sequence[Any]) -> Feature:
    """Return the feature with a list of that kind: "bytes_list", "float_list" or "int64_list"."""
    return Feature(**{kind: _LISTS[kind](value=values)})


def to_dict(message: Example | SequenceExample) -> dict[str, Any]:
    """Return the values of an Example: a 1-D int64 or float32 array, or a list of bytes.

    A feature without a list is None. A SequenceExample gives {"context": the same,
    "feature_lists": {name: [the value of each step]}}. Accepts TensorFlow's messages too.
    """
    if message.DESCRIPTOR.name == "SequenceExample":
        return _sequence_to_dict(message)  # type: ignore[arg-type]
    return _features_to_dict(message.features)  # type: ignore[union-attr]


def from_dict(values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - one of two messages
    """Return the Example of {name: value}, or the SequenceExample of a result of to_dict().

    A value is a number, bytes, a str (stored as UTF-8), None (a feature without a list), or
    a list or array of these, of any number of dimensions, stored in C order. Integers and
    booleans become int64, other numbers float32; an empty list is one of bytes, an empty
    array is of its dtype. A mapping whose only keys are "context" and "feature_lists",
    with mappings behind them, is a SequenceExample's.

    Raises TypeError or ValueError, naming the feature, for a value of another type or one
    that int64 or float32 cannot hold.
    """
    if _is_sequence(values):
        return _sequence_from_dict(values)
    return Example(features=_features_from_dict(values))


def _features_to_dict(features: Features) -> dict[str, FeatureValue]:
    return {name: _value(feature) for name, feature in features.feature.items()}


def _sequence_to_dict(message: SequenceExample) -> dict[str, Any]:
    lists = message.feature_lists.feature_list
    return {
        "context": _features_to_dict(message.context),
        "feature_lists": {
            name: [_value(step) for step in steps.feature] for name, steps in lists.items()
        },
    }


def _value(feature: Feature) -> FeatureValue:
    kind = feature.WhichOneof("kind")
    if kind == "int64_list":
        return np.array(feature.int64_list.value, dtype=np.int64)
    if kind == "float_list":
        return np.array(feature.float_list.value, dtype=np.float32)
    return list(feature.bytes_list.value) if kind else None


def _is_sequence(values: Mapping[str, Any]) -> bool:
    return (
        bool(values)
        and values.keys() <= {"context", "feature_lists"}
        and all(isinstance(value, Mapping) for value in values.values())
    )


def _sequence_from_dict(values: Mapping[str, Any]) -> SequenceExample:
    message = SequenceExample(context=_features_from_dict(values.get("context", {})))
    for name, steps in values.get("feature_lists", {}).items():
        if isinstance(steps, str | bytes) or not isinstance(steps, Iterable):
            raise TypeError(f'feature list "{name}": {_type(steps)} is no list of steps')
        features = [_feature(step, f"{name}[{i}]") for i, step in enumerate(steps)]
        message.feature_lists.feature_list[feature_name(name)].CopyFrom(
            FeatureList(feature=features)
        )
    return message


def _features_from_dict(values: Mapping[str, Any]) -> Features:
    return Features(
        feature={feature_name(name): _feature(value, name) for name, value in values.items()}
    )


def feature_name(name: object) -> str:
    """Return the name, which must be text in UTF-8. Raises TypeError, ValueError."""
    if not isinstance(name, str):
        raise TypeError(f"feature {name!r}: a feature's name is a str, not {_type(name)}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"feature {name!r}: the name cannot be written as UTF-8") from None
    return name


def _feature(value: object, name: str) -> Feature:
    if value is None:
        return Feature()
    if isinstance(value, list | tuple | str | bytes | bytearray | memoryview):
        return _feature_of(_flat(value, name), name)
    array = np.asarray(value)  # accepts scalars, and all objects with __array__
    if array.dtype.kind in "biu":
        return _int_feature(array.reshape(-1), name)
    if array.dtype.kind == "f":
        return _float_feature(array.reshape(-1), name)
    if array.dtype.kind in "SUO":
        return _feature_of(array.reshape(-1).tolist(), name)
    raise TypeError(f'feature "{name}": {_type(value)} of {array.dtype} cannot be stored')


def _flat(value: object, name: str) -> list[Any]:
    if isinstance(value, str | bytes | bytearray | memoryview):
        return [value]
    try:
        # As objects, so that NumPy does not convert them: it makes floats of large integers
        # and drops NULs at the end of bytes.
        return np.asarray(value, dtype=object).reshape(-1).tolist()
    except ValueError:
        raise ValueError(f'feature "{name}": the arrays in it are of different shapes') from None


def _feature_of(items: Sequence[Any], name: str) -> Feature:
    """Return the feature of a flat list, of the kind that fits all its items."""
    if all(isinstance(item, str | bytes | bytearray | memoryview) for item in items):
        return Feature(bytes_list=BytesList(value=[_bytes(item, name) for item in items]))
    # NumPy derives timedelta64 from its integers.
    is_number = not any(isinstance(item, np.timedelta64) for item in items)
    if is_number and all(isinstance(item, int | np.integer | np.bool_) for item in items):
        return _int_feature(items, name)
    numbers = int | float | np.integer | np.floating | np.bool_
    if is_number and all(isinstance(item, numbers) for item in items):
        return _float_feature(np.array([_float(item, name) for item in items]), name)
    types = ", ".join(sorted({_type(item) for item in items}))
    raise TypeError(f'feature "{name}": a list of {types} cannot be stored')


def _bytes(item: str | bytes | bytearray | memoryview, name: str) -> bytes:
    if not isinstance(item, str):
        return bytes(item)
    try:
        return item.encode()
    except UnicodeEncodeError:
        raise ValueError(f'feature "{name}": {item!r} cannot be written as UTF-8') from None


def _float(item: float | np.integer[Any] | np.floating[Any], name: str) -> float:
    try:
        return float(item)
    except OverflowError:
        raise ValueError(f'feature "{name}": {item} does not fit into a float32') from None


def _int_feature(items: Sequence[Any] | NDArray[Any], name: str) -> Feature:
    values = items.tolist() if isinstance(items, np.ndarray) else [int(item) for item in items]
    for value in (min(values), max(values)) if values else ():
        if not _INT64.min <= value <= _INT64.max:
            raise ValueError(f'feature "{name}": {value} does not fit into an int64')
    return Feature(int64_list=Int64List(value=map(int, values)))


def _float_feature(items: NDArray[Any], name: str) -> Feature:
    if items.dtype.itemsize > np.dtype(np.float32).itemsize:
        too_large = np.isfinite(items) & (np.abs(items) > _FLOAT32_MAX)
        if too_large.any():
            raise ValueError(f'feature "{name}": {items[too_large][0]} does not fit into a float32')
    return Feature(float_list=FloatList(value=items.tolist()))


def _type(value: object) -> str:
    return type(value).__name__
