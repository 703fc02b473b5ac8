"""ParsingPlan: how the native parser reads a set of features, and how its columns become values.

Most features are one column each, which is their value; a RaggedFeature or a
SparseFeature needs the columns of several keys, which others may need too.

Not here: the values of these (ragged.py), records (parse.py). Concurrency: immutable; plans
are cached for sets of features that come again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ffrfs._native import ExampleParser
from ffrfs.tfrecord.parsing.dtypes import Kind, kind_of
from ffrfs.tfrecord.parsing.features import (
    AnyFeature,
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
    own_feature,
)
from ffrfs.tfrecord.parsing.ragged import (
    Place,
    index_keys,
    partition_keys,
    ragged_value,
    sparse_value,
    splits_dtype,
)
from ffrfs.tfrecord.parsing.values import RaggedValue, SparseValue

if TYPE_CHECKING:
    from ffrfs._native import FeatureConfig, ParsedColumn

FeatureMap: TypeAlias = Mapping[str, AnyFeature]
Parsed: TypeAlias = dict[str, NDArray[Any] | SparseValue | RaggedValue]
_Items: TypeAlias = tuple[tuple[str, AnyFeature], ...]
# Returns the columns that a part of a record needs for a feature.
Part: TypeAlias = "Callable[[str, AnyFeature], Iterator[FeatureConfig]]"

# The values that fill missing steps, if there is no default.
PADDING: dict[Kind, list[Any]] = {"int64": [0], "float32": [0.0], "bytes": [b""]}


class ParsingPlan:
    """A set of features. `keys`: of the columns that `parser` returns, in their order."""

    __slots__ = ("_composite", "features", "keys", "parser")

    def __init__(self, part: Part, items: _Items, _defaults: object = None) -> None:
        configs: dict[str, FeatureConfig] = {}
        for name, feature in items:
            for config in part(name, feature):
                if not isinstance(config[0], str | bytes):
                    raise TypeError(f"names of features are text, not {config[0]!r}")
                if configs.setdefault(config[0], config) != config:
                    raise ValueError(f'feature "{config[0]}": it is asked for in two ways')
        self.keys = tuple(configs)
        self.parser = ExampleParser(list(configs.values()))
        self.features = dict(items)
        composite = RaggedFeature | SparseFeature
        self._composite = any(isinstance(feature, composite) for _, feature in items)

    def values(self, columns: list[ParsedColumn], place: Place) -> Parsed:
        """Return the values for the parser's columns. `place` begins errors about a row."""
        found = {
            key: SparseValue(*column) if isinstance(column, tuple) else column
            for key, column in zip(self.keys, columns, strict=True)
        }
        if not self._composite:
            return found  # type: ignore[return-value]
        return {
            name: _value(name, feature, found, place) for name, feature in self.features.items()
        }


_kept_plan = functools.lru_cache(maxsize=64)(ParsingPlan)


def plan(part: Part, features: FeatureMap) -> ParsingPlan:
    """Return the plan of these features. ValueError for features that cannot be requested."""
    items = tuple([(name, own_feature(feature)) for name, feature in features.items()])
    try:
        # 1, 1.0 and True, and 0.0 and -0.0, are equal as keys, and are other defaults.
        defaults = tuple([(type(feature), repr(feature[-1])) for _, feature in items])
        return _kept_plan(part, items, defaults)
    except TypeError:  # a default value has no hash, for example an array
        return ParsingPlan(part, items)


def _value(
    name: str,
    feature: AnyFeature,
    columns: Mapping[str, NDArray[Any] | SparseValue],
    place: Place,
) -> NDArray[Any] | SparseValue | RaggedValue:
    if isinstance(feature, SparseFeature):
        return sparse_value(columns, name, feature, place)
    if isinstance(feature, RaggedFeature):
        return ragged_value(columns, name, feature, place)
    return columns[name]


def example_part(name: str, feature: AnyFeature) -> Iterator[FeatureConfig]:
    """Yield the columns of a feature of an Example, which may have all kinds."""
    if isinstance(feature, SparseFeature):
        for key in index_keys(feature)[0]:
            yield key, "int64", "variable", (), None
        yield feature.value_key, kind_of(feature.dtype, name), "variable", (), None
    elif isinstance(feature, FixedLenSequenceFeature):
        if not feature.allow_missing:
            raise ValueError(
                f'feature "{name}": in an Example, a FixedLenSequenceFeature must be one with '
                "allow_missing=True"
            )
        kind, shape = kind_of(feature.dtype, name), _sequence_shape(feature, name)
        padding = _defaults(kind, (), feature.default_value, name) or PADDING[kind]
        yield name, kind, "sequence", shape, padding
    else:
        yield from context_part(name, feature)


def context_part(name: str, feature: AnyFeature) -> Iterator[FeatureConfig]:
    """Yield the columns of a feature in the context of a SequenceExample."""
    if isinstance(feature, FixedLenFeature):
        kind, shape = kind_of(feature.dtype, name), _shape(feature.shape, name)
        yield name, kind, "fixed", shape, _defaults(kind, shape, feature.default_value, name)
    else:
        yield from _variable(name, feature)


def list_part(name: str, feature: AnyFeature) -> Iterator[FeatureConfig]:
    """Yield the columns of a feature in the feature lists of a SequenceExample."""
    if isinstance(feature, FixedLenSequenceFeature):
        if feature.default_value is not None:
            raise ValueError(
                f'feature "{name}": a feature list takes no default_value; '
                "allow_missing=True makes one that is not there empty"
            )
        kind, shape = kind_of(feature.dtype, name), _sequence_shape(feature, name)
        # A missing list has no steps, so these values are never used.
        defaults = PADDING[kind] * math.prod(shape) if feature.allow_missing else None
        yield name, kind, "fixed", shape, defaults
    else:
        yield from _variable(name, feature)


def _variable(name: str, feature: AnyFeature) -> Iterator[FeatureConfig]:
    if isinstance(feature, VarLenFeature):
        yield name, kind_of(feature.dtype, name), "variable", (), None
    elif isinstance(feature, RaggedFeature):
        splits_dtype(feature, name)
        yield feature.value_key or name, kind_of(feature.dtype, name), "variable", (), None
        for key in partition_keys(feature):
            yield key, "int64", "variable", (), None
        for partition in feature.partitions:
            if isinstance(partition, RaggedFeature.UniformRowLength) and partition.length < 1:
                raise ValueError(f'feature "{name}": rows of {partition.length} values')
    else:
        raise ValueError(f'feature "{name}": {type(feature).__name__} cannot be read here')


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
    # As in TensorFlow, a default without values is no default.
    return [_default_value(kind, value, name) for value in values] or None


def _default_value(kind: Kind, value: object, name: str) -> int | float | bytes:
    if kind == "bytes" and isinstance(value, bytes | str):
        return value.encode() if isinstance(value, str) else bytes(value)
    is_int = isinstance(value, int | np.integer | np.bool_) or (
        isinstance(value, np.floating) and value.is_integer()
    )
    if kind == "int64" and is_int and -(1 << 63) <= int(value) < 1 << 63:  # type: ignore[call-overload]
        return int(value)  # type: ignore[call-overload,no-any-return]
    if kind == "float32" and (is_int or isinstance(value, float | np.floating)):
        return float(value)  # type: ignore[arg-type]
    raise ValueError(f'feature "{name}": default_value {value!r} is no {kind}')
