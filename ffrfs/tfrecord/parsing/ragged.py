"""RaggedFeature and SparseFeature: their values, made of the columns of several features.

A column is the native parser's result for one key: (indices, values, dense shape) of a
feature with any number of values in each row, where a row is an example or a step. All records
are hostile: partitions that do not fit their values are a FormatError.

Not here: the choice of columns (plan.py). Concurrency: functions without state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ffrfs.errors import FormatError
from ffrfs.tfrecord.parsing.dtypes import numpy_dtype
from ffrfs.tfrecord.parsing.features import Partition, RaggedFeature, SparseFeature
from ffrfs.tfrecord.parsing.values import RaggedValue, SparseValue

Ints: TypeAlias = NDArray[np.int64]
Column: TypeAlias = tuple[Ints, NDArray[Any], Ints]
Columns: TypeAlias = Mapping[str, Any]
# Returns the beginning of an error about a row.
Place: TypeAlias = Callable[[int], str]

# The limit of rows for value_rowids: rows without values cost memory, but no byte of a record.
ROWS_MAX = 1 << 26


class _Rows(NamedTuple):
    values: NDArray[Any]
    splits: Ints


def splits_of(lengths: NDArray[Any]) -> Ints:
    """Return the row_splits of rows of these lengths."""
    splits = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=splits[1:])
    return splits


def _rows(column: Column) -> _Rows:
    indices, values, shape = column
    if len(shape) == 1:  # the column of a single example
        return _Rows(values, np.array([0, len(values)]))
    return _Rows(values, splits_of(np.bincount(indices[:, 0], minlength=int(shape[0]))))


def sparse_value(columns: Columns, name: str, feature: SparseFeature, place: Place) -> SparseValue:
    """Return a SparseFeature's value. FormatError if values and indices differ in number."""
    indices, values, shape = columns[feature.value_key]
    keys, sizes = index_keys(feature)
    counts = np.diff(_rows(columns[feature.value_key]).splits)
    for key in keys:
        others = np.diff(_rows(columns[key]).splits)
        if (row := _first(others != counts)) is not None:
            raise FormatError(
                f'{place(row)}feature "{name}": {others[row]} indices in "{key}", '
                f'{counts[row]} values in "{feature.value_key}"'
            )
    places = np.column_stack([indices[:, :-1], *(columns[key][1] for key in keys)])
    if not feature.already_sorted:
        order = np.lexsort(places.T[::-1])
        places, values = places[order], values[order]
    return SparseValue(places, values, np.concatenate([shape[:-1], sizes]).astype(np.int64))


def index_keys(feature: SparseFeature) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the index keys of a feature and their sizes. ValueError if they are invalid."""
    if not feature.index_key or not feature.value_key:
        raise ValueError(
            f"SparseFeature: index_key is {feature.index_key!r}, value_key {feature.value_key!r}; "
            "both must name features"
        )
    keys, sizes = feature.index_key, feature.size
    keys = (keys,) if isinstance(keys, str) else keys
    sizes = sizes if isinstance(sizes, tuple) else (sizes,)
    if len(keys) != len(sizes):
        raise ValueError(
            f"SparseFeature: {len(keys)} index keys {keys}, but {len(sizes)} sizes {sizes}"
        )
    return keys, sizes


def ragged_value(
    columns: Columns, name: str, feature: RaggedFeature, place: Place
) -> NDArray[Any] | RaggedValue:
    """Return a RaggedFeature's value; an array for a single example without partitions."""
    key = feature.value_key or name
    values, splits = _rows(columns[key])
    inner: NDArray[Any] | RaggedValue = values
    dtype = splits_dtype(feature, name)
    for partition in reversed(feature.partitions):
        divide = _Division(columns, name, place, np.diff(splits))
        if isinstance(partition, RaggedFeature.UniformRowLength):
            counts = divide.by_length(partition.length)
            if isinstance(inner, np.ndarray):
                inner = inner.reshape(-1, partition.length, *inner.shape[1:])
            else:
                lengths = np.full(counts.sum(), partition.length)
                inner = RaggedValue(inner, splits_of(lengths).astype(dtype))
        else:
            lengths, counts = divide.by_key(partition)
            inner = RaggedValue(inner, splits_of(lengths).astype(dtype))
        splits = splits_of(counts)
    if len(columns[key][2]) == 1:
        return inner
    return RaggedValue(inner, splits.astype(dtype))


def partition_keys(feature: RaggedFeature) -> list[str]:
    """Return the keys that divide a feature's values."""
    uniform = RaggedFeature.UniformRowLength
    return [partition[0] for partition in feature.partitions if not isinstance(partition, uniform)]


def splits_dtype(feature: RaggedFeature, name: str) -> np.dtype[Any]:
    """Return the dtype of a feature's row_splits. ValueError if it is not int32 or int64."""
    dtype = numpy_dtype(feature.row_splits_dtype)
    if dtype not in (np.dtype(np.int32), np.dtype(np.int64)):
        raise ValueError(
            f'feature "{name}": row_splits_dtype is {feature.row_splits_dtype!r}; '
            "it must be int32 or int64"
        )
    return dtype


class _Division:
    """A partition of all rows, which have `counts` values each."""

    def __init__(self, columns: Columns, name: str, place: Place, counts: Ints) -> None:
        self._columns = columns
        self._name = name
        self._place = place
        self._counts = counts

    def by_length(self, length: int) -> Ints:
        """Return how many rows of `length` each row becomes."""
        self._require(self._counts % length == 0, f"do not divide into rows of {length}")
        return self._counts // length

    def by_key(self, partition: Partition) -> tuple[Ints, Ints]:
        """Return the lengths of all new rows, and how many there are in each row."""
        key = partition[0]
        given, splits = _rows(self._columns[key])
        if len(splits) != len(self._counts) + 1:
            raise FormatError(
                f'{self._place(0)}feature "{self._name}": "{key}" has {len(splits) - 1} steps, '
                f"the values have {len(self._counts)}"
            )
        sizes = np.diff(splits)
        if isinstance(partition, RaggedFeature.ValueRowIds):
            return self._by_rowids(given, splits, sizes, key)
        wrong = f'do not fit the partition "{key}"'
        rows = np.repeat(np.arange(len(sizes)), sizes)
        self._require_each((given >= 0) & (given <= self._counts[rows]), rows, wrong)
        first = np.zeros(len(given), bool)
        first[splits[:-1][sizes > 0]] = True
        last = np.roll(first, -1)
        lengths, counts = given, sizes
        total = np.zeros_like(self._counts)  # values in the new rows of each row
        if isinstance(partition, RaggedFeature.RowLengths):
            np.add.at(total, rows, given)
        elif isinstance(partition, RaggedFeature.RowStarts):
            self._require_each(~first | (given == 0), rows, wrong)
            lengths = np.where(last, self._counts[rows], np.roll(given, -1)) - given
            total[sizes > 0] = self._counts[sizes > 0]
        else:  # RowLimits, RowSplits
            before = np.where(first, 0, np.roll(given, 1))
            lengths = given - before
            total[sizes > 0] = given[last]
            if isinstance(partition, RaggedFeature.RowSplits):
                self._require_each(~first | (given == 0), rows, wrong)
                self._require_each(lengths >= 0, rows, wrong)
                lengths, counts = lengths[~first], np.maximum(sizes - 1, 0)
                rows = rows[~first]
        self._require_each(lengths >= 0, rows, wrong)
        self._require(total == self._counts, wrong)
        return lengths, counts

    def _by_rowids(self, given: Ints, splits: Ints, sizes: Ints, key: str) -> tuple[Ints, Ints]:
        wrong = f'do not fit the rows in "{key}"'
        self._require(sizes == self._counts, wrong)
        rows = np.repeat(np.arange(len(sizes)), sizes)
        self._require_each((given >= 0) & (given < ROWS_MAX), rows, wrong)
        same_row = rows[1:] == rows[:-1]
        self._require_each(np.diff(given, prepend=0)[1:] >= 0, rows[1:], wrong, same_row)
        counts = np.zeros_like(sizes)
        filled = sizes > 0
        counts[filled] = given[splits[1:][filled] - 1] + 1
        if counts.sum() > ROWS_MAX:
            raise FormatError(
                f'{self._place(0)}feature "{self._name}": "{key}" asks for {counts.sum()} rows; '
                f"the limit is {ROWS_MAX}"
            )
        offsets = splits_of(counts)
        return np.bincount(given + offsets[rows], minlength=int(offsets[-1])), counts

    def _require(self, right: NDArray[np.bool_], wrong: str) -> None:
        self._require_each(right, np.arange(len(right)), wrong)

    def _require_each(
        self,
        right: NDArray[np.bool_],
        rows: Ints,
        wrong: str,
        where: NDArray[np.bool_] | None = None,
    ) -> None:
        """Check each entry of a partition, which belongs to one of `rows`."""
        faults = ~right if where is None else ~right & where
        if (entry := _first(faults)) is not None:
            row = int(rows[entry])
            raise FormatError(
                f'{self._place(row)}feature "{self._name}": {self._counts[row]} values {wrong}'
            )


def _first(faults: NDArray[np.bool_]) -> int | None:
    return int(faults.argmax()) if faults.any() else None
