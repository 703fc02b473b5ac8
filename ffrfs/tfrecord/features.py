"""What to read of an Example: the configurations that parse.py takes.

The names, fields and meanings are those of tf.io. A dtype is NumPy's int64 or float32
(in any spelling that np.dtype takes), or `bytes`; there are no others in the format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

Kind: TypeAlias = Literal["int64", "float32", "bytes"]
# np.int64, "int64", np.dtype(np.int64), …; bytes.
DType: TypeAlias = Any


class AnyFeature(tuple[Any, ...]):
    """What the three kinds of feature have in common.

    Without it a type checker infers tuples for a dictionary of several kinds, and refuses
    them where parse_example() takes features.
    """

    __slots__ = ()


class _FixedLen(NamedTuple):
    shape: tuple[int, ...]
    dtype: DType
    default_value: Any = None


class FixedLenFeature(_FixedLen, AnyFeature):
    """A feature with the same number of values in every example.

    `shape`: of one example's values, () for one value. `default_value`: what an example
    has that lacks the feature, of that shape; without it, lacking it is an error.
    """

    __slots__ = ()

    def __new__(cls, shape: Sequence[int], dtype: DType, default_value: object = None) -> Self:
        return super().__new__(cls, tuple(shape), dtype, default_value)


class _VarLen(NamedTuple):
    dtype: DType


class VarLenFeature(_VarLen, AnyFeature):
    """A feature with any number of values, none among them; read as a SparseValue."""

    __slots__ = ()


class _FixedLenSequence(NamedTuple):
    shape: tuple[int, ...]
    dtype: DType
    allow_missing: bool = False
    default_value: Any = None


class FixedLenSequenceFeature(_FixedLenSequence, AnyFeature):
    """A feature with any number of steps, all of the same `shape`.

    In an Example: any multiple of the values of `shape`; in a batch, rows are padded with
    `default_value` (one value; 0 or b"" if None) to the longest; `allow_missing` must be
    True, as in TensorFlow. In a SequenceExample: a feature list; if `allow_missing`, one
    that is not there has no steps, else that is an error.
    """

    __slots__ = ()

    def __new__(
        cls,
        shape: Sequence[int],
        dtype: DType,
        allow_missing: bool = False,
        default_value: object = None,
    ) -> Self:
        return super().__new__(cls, tuple(shape), dtype, allow_missing, default_value)


class SparseValue(NamedTuple):
    """The values that are there, as tf.sparse.SparseTensor has them.

    `indices`: int64, one row per value: (example or step, position), or (position,) of a
    single example. `values`: 1-D. `dense_shape`: int64, the smallest that holds them.
    """

    indices: NDArray[np.int64]
    values: NDArray[Any]
    dense_shape: NDArray[np.int64]


def kind_of(dtype: DType, name: str) -> Kind:
    """Which of the three kinds of value `dtype` is; `name` is the feature's, for errors."""
    if dtype is bytes:
        return "bytes"
    try:
        known = np.dtype(dtype)
    except TypeError:
        known = None
    if known == np.int64:
        return "int64"
    if known == np.float32:
        return "float32"
    raise ValueError(f'feature "{name}": dtype is {dtype!r}; it must be int64, float32 or bytes')
