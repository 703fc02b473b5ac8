"""Results of parsing that do not fit into an array: SparseValue and RaggedValue.

Names and meanings are those of tf.sparse.SparseTensor and tf.RaggedTensor. Not here: making
them (parse.py, ragged.py). Concurrency: tuples and arrays; code that changes an array needs
its own lock.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class SparseValue(NamedTuple):
    """The existing values with their indices, as in tf.sparse.SparseTensor.

    `indices`: int64, one row per value: (example or step, position), or (position,) for a
    single example. `values`: 1-D. `dense_shape`: int64, the smallest that holds them; for a
    SparseFeature that of `size`.
    """

    indices: NDArray[np.int64]
    values: NDArray[Any]
    dense_shape: NDArray[np.int64]

    def to_dense(self, default_value: object = None) -> NDArray[Any]:
        """Return an array of `dense_shape`, as tf.sparse.to_dense() does.

        `default_value`: fills places without a value; 0 or b"" if None. Raises ValueError for
        an index outside of the shape, or a repeated one.
        """
        shape = tuple(self.dense_shape.tolist())
        if ((self.indices < 0) | (self.indices >= self.dense_shape)).any():
            raise ValueError(f"an index is outside of the dense shape {shape}")
        if math.prod(shape) >= 1 << 63:
            raise ValueError(f"an array of shape {shape} is too large")
        fill = default_value
        if fill is None:
            fill = b"" if self.values.dtype == object else 0
        elif isinstance(fill, str):
            fill = fill.encode()
        places = tuple(self.indices.T)
        flat = np.ravel_multi_index(places, shape) if len(self.values) else places[0]
        if len(np.unique(flat)) != len(flat):
            raise ValueError("an index is there twice")
        dense = np.full(shape, fill, self.values.dtype)
        dense[places] = self.values
        return dense


class RaggedValue:
    """Rows of different lengths, as in tf.RaggedTensor; immutable except for its arrays.

    `values`: the rows one after another, an array or, if the rows contain rows, a
    RaggedValue. `row_splits`: int32 or int64, one more than there are rows: row i is
    values[row_splits[i]:row_splits[i + 1]].
    """

    __slots__ = ("row_splits", "values")

    def __init__(self, values: NDArray[Any] | RaggedValue, row_splits: NDArray[Any]) -> None:
        self.values = values
        self.row_splits = row_splits

    @property
    def flat_values(self) -> NDArray[Any]:
        """The innermost values."""
        return self.values.flat_values if isinstance(self.values, RaggedValue) else self.values

    @property
    def nested_row_splits(self) -> tuple[NDArray[Any], ...]:
        """The row_splits of every dimension, from the outermost."""
        inner = self.values.nested_row_splits if isinstance(self.values, RaggedValue) else ()
        return (self.row_splits, *inner)

    @property
    def ragged_rank(self) -> int:
        """The number of ragged dimensions."""
        return len(self.nested_row_splits)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the innermost values."""
        return self.flat_values.dtype

    def nrows(self) -> int:
        """Return the number of rows, as len() does."""
        return len(self.row_splits) - 1

    def row_lengths(self) -> NDArray[Any]:
        """Return the number of values of each row."""
        return np.diff(self.row_splits)

    def value_rowids(self) -> NDArray[Any]:
        """Return the row of each value."""
        return np.repeat(np.arange(len(self), dtype=self.row_splits.dtype), self.row_lengths())

    def to_list(self) -> list[Any]:
        """Return nested lists of Python's values."""
        inner = self.values
        items = inner.to_list() if isinstance(inner, RaggedValue) else inner.tolist()
        return [items[begin:end] for begin, end in pairwise(self.row_splits.tolist())]

    def __len__(self) -> int:
        return self.nrows()

    def __getitem__(self, row: int) -> NDArray[Any] | RaggedValue:
        """Return row `row`; a negative one counts from the end."""
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} does not exist: there are {len(self)}")
        begin, end = self.row_splits[row % len(self) :][:2].tolist()
        if isinstance(self.values, RaggedValue):
            return self.values._rows(begin, end)
        return self.values[begin:end]

    def __iter__(self) -> Iterator[NDArray[Any] | RaggedValue]:
        return (self[row] for row in range(len(self)))

    def _rows(self, begin: int, end: int) -> RaggedValue:
        splits = self.row_splits[begin : end + 1]
        first, last = int(splits[0]), int(splits[-1])
        inner = self.values
        part = inner._rows(first, last) if isinstance(inner, RaggedValue) else inner[first:last]
        return RaggedValue(part, splits - splits[0])

    def __repr__(self) -> str:
        return f"RaggedValue({self.to_list()!r})"
