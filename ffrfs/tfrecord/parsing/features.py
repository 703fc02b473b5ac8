"""The configurations of features that parse.py takes.

The names, fields and meanings are those of tf.io, whose own objects are accepted, too. A dtype is
int64, float32 or bytes (in any spelling that dtypes.py knows); the format has no others.
A shape may be one number, for one dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np

from ffrfs.tfrecord.parsing.dtypes import DType

Shape: TypeAlias = Sequence[int] | int


def _dimensions(shape: Shape) -> tuple[int, ...]:
    if isinstance(shape, int | np.integer):
        return (int(shape),)
    try:
        return tuple(shape)
    except TypeError:
        needed = "it must be the size of each dimension, [] for one value"
        raise ValueError(f"shape is {shape!r}; {needed}") from None


class AnyFeature(tuple[Any, ...]):
    """The common base of all kinds of features.

    Without it a type checker infers tuples for a dictionary of several kinds, and refuses
    them for an argument of parse_example() that takes features.
    """

    __slots__ = ()


class _FixedLen(NamedTuple):
    shape: tuple[int, ...]
    dtype: DType
    default_value: Any = None


class FixedLenFeature(_FixedLen, AnyFeature):
    """A feature with the same number of values in every example.

    `shape`: of one example's values, () for one value. `default_value`: the values, of that
    shape, for an example without the feature; without a default, its absence is an error.
    """

    __slots__ = ()

    def __new__(cls, shape: Shape, dtype: DType, default_value: object = None) -> Self:
        return super().__new__(cls, _dimensions(shape), dtype, default_value)


class _VarLen(NamedTuple):
    dtype: DType


class VarLenFeature(_VarLen, AnyFeature):
    """A feature with any number of values, or none; read as a SparseValue."""

    __slots__ = ()


class _FixedLenSequence(NamedTuple):
    shape: tuple[int, ...]
    dtype: DType
    allow_missing: bool = False
    default_value: Any = None


class FixedLenSequenceFeature(_FixedLenSequence, AnyFeature):
    """A feature with any number of steps, all of the same `shape`.

    In an Example it has any multiple of the values of `shape`; in a batch, rows are padded with
    `default_value` (one value; 0 or b"" if None) to the longest; `allow_missing` must be
    True, as in TensorFlow. In a SequenceExample it is a feature list; a missing one has no steps
    if `allow_missing`, and otherwise is an error; it takes no `default_value`.
    """

    __slots__ = ()

    def __new__(
        cls,
        shape: Shape,
        dtype: DType,
        allow_missing: bool = False,
        default_value: object = None,
    ) -> Self:
        return super().__new__(cls, _dimensions(shape), dtype, allow_missing, default_value)


class _Sparse(NamedTuple):
    index_key: str | tuple[str, ...]
    value_key: str
    dtype: DType
    size: int | tuple[int, ...]
    already_sorted: bool = False


class SparseFeature(_Sparse, AnyFeature):
    """Values in one feature, and their indices in others; read as a SparseValue.

    `index_key`: the feature with the index of each value, or one for each dimension.
    `size`: the size of each of these dimensions. `already_sorted`: leave the values in their
    order; otherwise they are sorted by their indices.
    """

    __slots__ = ()

    def __new__(
        cls,
        index_key: str | Sequence[str],
        value_key: str,
        dtype: DType,
        size: int | Sequence[int],
        already_sorted: bool = False,
    ) -> Self:
        keys = index_key if isinstance(index_key, str) else tuple(index_key)
        sizes = size if isinstance(size, int | np.integer) else tuple(size)
        return super().__new__(cls, keys, value_key, dtype, sizes, already_sorted)


class Partition(tuple[Any, ...]):
    """A rule by which a RaggedFeature's values, or its rows, become rows."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Return whether both are of one kind and have the same key, unlike tuples."""
        return type(self) is type(other) and tuple(self) == tuple(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self), tuple(self)))


class _Key(NamedTuple):
    key: str


class _Length(NamedTuple):
    length: int


class _RowSplits(_Key, Partition):
    """The feature `key` has the row_splits: the begin of each row, and the end of the last."""


class _RowLengths(_Key, Partition):
    """The feature `key` has the length of each row."""


class _RowStarts(_Key, Partition):
    """The feature `key` has the begin of each row."""


class _RowLimits(_Key, Partition):
    """The feature `key` has the end of each row."""


class _ValueRowIds(_Key, Partition):
    """The feature `key` has the row of each value, in ascending order."""


class _UniformRowLength(_Length, Partition):
    """Every row has `length` values."""


class _Ragged(NamedTuple):
    dtype: DType
    value_key: str | None = None
    partitions: tuple[Partition, ...] = ()
    row_splits_dtype: DType = np.int32
    validate: bool = False


class RaggedFeature(_Ragged, AnyFeature):
    """Values that other features divide into rows; read as a RaggedValue.

    `value_key`: the feature with the values; None: the name in the result. `partitions`: how
    they are divided, from the outermost dimension: RaggedFeature.RowSplits("key"),
    .RowLengths("key"), …; without one, an example's values are one row. The examples of a
    batch are one more dimension. `row_splits_dtype`: int32 or int64. Partitions are always
    checked, whatever `validate` is.
    """

    __slots__ = ()

    RowSplits: ClassVar = _RowSplits
    RowLengths: ClassVar = _RowLengths
    RowStarts: ClassVar = _RowStarts
    RowLimits: ClassVar = _RowLimits
    ValueRowIds: ClassVar = _ValueRowIds
    UniformRowLength: ClassVar = _UniformRowLength

    def __new__(
        cls,
        dtype: DType,
        value_key: str | None = None,
        partitions: Sequence[Partition] = (),
        row_splits_dtype: DType = np.int32,
        validate: bool = False,
    ) -> Self:
        own = tuple(map(own_feature, partitions))
        if not all(isinstance(partition, Partition) for partition in own):
            raise TypeError(f"partitions are RaggedFeature.RowSplits and its like: {partitions!r}")
        if value_key == "":
            raise ValueError('RaggedFeature: value_key is ""; it must name a feature')
        return super().__new__(cls, dtype, value_key, own, row_splits_dtype, validate)


_OWN: dict[str, Callable[..., Any]] = {
    "FixedLenFeature": FixedLenFeature,
    "FixedLenSequenceFeature": FixedLenSequenceFeature,
    "RaggedFeature": RaggedFeature,
    "SparseFeature": SparseFeature,
    "VarLenFeature": VarLenFeature,
    "RowLengths": _RowLengths,
    "RowLimits": _RowLimits,
    "RowSplits": _RowSplits,
    "RowStarts": _RowStarts,
    "UniformRowLength": _UniformRowLength,
    "ValueRowIds": _ValueRowIds,
}


def own_feature(feature: Any) -> Any:  # noqa: ANN401 - of any class
    """Return our equivalent of a feature or partition of tf.io; any other object as it is."""
    kind = type(feature)
    if isinstance(feature, AnyFeature) or kind.__module__.partition(".")[0] != "tensorflow":
        return feature
    make = _OWN.get(kind.__name__)
    return feature if make is None else make(*feature)
