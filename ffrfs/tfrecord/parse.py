"""parse_example and its siblings: serialised Examples into NumPy arrays, as tf.io does it.

Numbers are dense int64 or float32 arrays; bytes are object arrays of `bytes`, as
TensorFlow's `.numpy()` gives them. What is not asked for is not looked into.

Errors: FormatError, which names the feature, the example's place in the batch, what was
expected and what is there, or where the bytes are no Example; ValueError for features
that cannot be asked for.

Not here: the parsing itself (native/tfrecord/batch_parser.h), messages as objects
(example.py). Concurrency: everything may be called from several threads; the GIL is free
while a batch is decoded.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ffrfs._native import ExampleParser
from ffrfs.tfrecord.features import (
    AnyFeature,
    FixedLenFeature,
    FixedLenSequenceFeature,
    Kind,
    SparseValue,
    VarLenFeature,
    kind_of,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ffrfs._native import FeatureConfig, ParsedColumn

Record: TypeAlias = "Buffer | NDArray[np.uint8]"
FeatureMap: TypeAlias = Mapping[str, AnyFeature]
Parsed: TypeAlias = dict[str, NDArray[Any] | SparseValue]
_Items: TypeAlias = tuple[tuple[str, AnyFeature], ...]
_Config: TypeAlias = "Callable[[str, AnyFeature], FeatureConfig]"

# What missing steps are filled with, where nothing else is said.
_PADDING: dict[Kind, list[Any]] = {"int64": [0], "float32": [0.0], "bytes": [b""]}


def parse_example(serialized: Iterable[Record], features: FeatureMap) -> Parsed:
    """Parse a batch of serialised Examples, bytes-like objects each.

    Returns for each name in `features`, n being the number of examples:
    FixedLenFeature: an array of shape [n, *shape]. FixedLenSequenceFeature: of shape
    [n, steps of the longest, *shape]. VarLenFeature: a SparseValue of dense shape
    [n, values of the longest].
    """
    if isinstance(serialized, bytes | bytearray | memoryview | str):
        raise TypeError("parse_example takes a sequence of records; parse_single_example takes one")
    parser = _parser(_example_config, features)
    return _named(features, parser.parse(serialized))


def parse_single_example(
    serialized: Record, features: FeatureMap, name: str | None = None
) -> Parsed:
    """Parse one serialised Example: as parse_example(), without the dimension of the batch.

    A FixedLenFeature of shape () becomes an array of that shape: `.item()` is its value.
    `name`: the record's, to begin the text of an error with.
    """
    parser = _parser(_example_config, features)
    return _named(features, parser.parse_one(serialized, name or ""))


def parse_single_sequence_example(
    serialized: Record,
    context_features: FeatureMap | None = None,
    sequence_features: FeatureMap | None = None,
    name: str | None = None,
) -> tuple[Parsed, Parsed]:
    """Parse one serialised SequenceExample: (context, feature lists).

    The context is what parse_single_example() returns; it takes FixedLenFeature and
    VarLenFeature. Of the feature lists a FixedLenSequenceFeature becomes an array of shape
    [steps, *shape], each step having exactly the values of `shape`; a VarLenFeature a
    SparseValue of dense shape [steps, values of the longest].
    """
    context_features = context_features or {}
    sequence_features = sequence_features or {}
    context = _parser(_context_config, context_features)
    lists = _parser(_list_config, sequence_features)
    return (
        _named(context_features, context.parse_context(serialized, name or "")),
        _named(sequence_features, lists.parse_lists(serialized, name or "")),
    )


def _parser(config: _Config, features: FeatureMap) -> ExampleParser:
    items = tuple(features.items())
    try:
        # 1, 1.0 and True are equal as keys, but not all of them are an int64's default.
        types = tuple([(type(feature), type(feature[-1])) for feature in features.values()])
        return _kept_parser(config, items, types)
    except TypeError:  # a default value that has no hash, as arrays have none
        return _new_parser(config, items)


def _new_parser(config: _Config, items: _Items, _types: object = None) -> ExampleParser:
    return ExampleParser([config(name, feature) for name, feature in items])


_kept_parser = functools.lru_cache(maxsize=64)(_new_parser)


def _named(features: FeatureMap, columns: list[ParsedColumn]) -> Parsed:
    return {
        name: SparseValue(*column) if isinstance(column, tuple) else column
        for name, column in zip(features, columns, strict=True)
    }


def _example_config(name: str, feature: AnyFeature) -> FeatureConfig:
    if isinstance(feature, FixedLenSequenceFeature):
        if not feature.allow_missing:
            raise ValueError(
                f'feature "{name}": in an Example, a FixedLenSequenceFeature must be one with '
                "allow_missing=True"
            )
        kind, shape = kind_of(feature.dtype, name), _sequence_shape(feature, name)
        padding = _defaults(kind, (), feature.default_value, name) or _PADDING[kind]
        return name, kind, "sequence", shape, padding
    return _context_config(name, feature)


def _context_config(name: str, feature: AnyFeature) -> FeatureConfig:
    if isinstance(feature, VarLenFeature):
        return name, kind_of(feature.dtype, name), "variable", (), None
    if isinstance(feature, FixedLenFeature):
        kind, shape = kind_of(feature.dtype, name), _shape(feature.shape, name)
        return name, kind, "fixed", shape, _defaults(kind, shape, feature.default_value, name)
    raise _unsupported(name, feature)


def _list_config(name: str, feature: AnyFeature) -> FeatureConfig:
    if isinstance(feature, VarLenFeature):
        return _context_config(name, feature)
    if isinstance(feature, FixedLenSequenceFeature):
        kind, shape = kind_of(feature.dtype, name), _sequence_shape(feature, name)
        # A list that is missing has no steps, so these values go nowhere.
        defaults = _PADDING[kind] * math.prod(shape) if feature.allow_missing else None
        return name, kind, "fixed", shape, defaults
    raise _unsupported(name, feature)


def _unsupported(name: str, feature: object) -> ValueError:
    return ValueError(f'feature "{name}": {type(feature).__name__} cannot be read here')


def _shape(shape: tuple[int, ...], name: str) -> tuple[int, ...]:
    if not all(isinstance(size, int | np.integer) and size >= 0 for size in shape):
        raise ValueError(f'feature "{name}": shape is {shape}; each dimension must be known')
    return tuple(int(size) for size in shape)


def _sequence_shape(feature: FixedLenSequenceFeature, name: str) -> tuple[int, ...]:
    shape = _shape(feature.shape, name)
    if math.prod(shape) == 0:
        raise ValueError(f'feature "{name}": shape is {shape}; a step must have values')
    return shape


def _defaults(kind: Kind, shape: tuple[int, ...], default: object, name: str) -> list[Any] | None:
    """Return the values of a default, flat; None if there is none."""
    if default is None:
        return None
    values = np.asarray(default, dtype=object).reshape(-1).tolist()
    if len(values) != math.prod(shape):
        raise ValueError(
            f'feature "{name}": default_value has {len(values)} values, shape {shape} '
            f"needs {math.prod(shape)}"
        )
    return [_default_value(kind, value, name) for value in values]


def _default_value(kind: Kind, value: object, name: str) -> int | float | bytes:
    if kind == "bytes" and isinstance(value, bytes | str):
        return value.encode() if isinstance(value, str) else bytes(value)
    is_int = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if kind == "int64" and is_int and -(1 << 63) <= int(value) < 1 << 63:  # type: ignore[call-overload]
        return int(value)  # type: ignore[call-overload,no-any-return]
    if kind == "float32" and (is_int or isinstance(value, float | np.floating)):
        return float(value)  # type: ignore[arg-type]
    raise ValueError(f'feature "{name}": default_value {value!r} is no {kind}')
