"""The summary of one feature over some records, and the merging of two such summaries.

Not here: values as columns (columns.py), messages (statistics_message.py). Concurrency: one
thread at a time; summaries may come from other processes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ffrfs.schema.columns import Column, Kind
from ffrfs.schema.quantiles import Quantiles
from ffrfs.schema.value_counts import ValueCounts

# More values of a large record are added one after the other: adding takes several copies.
_VALUES_AT_ONCE = 1 << 22


class CountSummary:
    """The numbers of values in lists. `count`: number of lists."""

    __slots__ = ("numbers", "total")

    def __init__(self) -> None:
        self.total = 0
        self.numbers = Quantiles()

    @property
    def count(self) -> int:
        return self.numbers.count

    def add(self, counts: NDArray[np.int64]) -> None:
        self.total += int(counts.sum())
        self.numbers.add(counts.astype(np.float64))

    def merge(self, other: CountSummary) -> None:
        self.total += other.total
        self.numbers.merge(other.numbers)


class NumberSummary:
    """Summary of ints and floats. `mean` and `squares` (of distances to it): of finite ones."""

    __slots__ = ("finite_count", "mean", "nan_count", "numbers", "squares", "zero_count")

    def __init__(self) -> None:
        self.nan_count = self.zero_count = self.finite_count = 0
        self.mean = self.squares = 0.0
        self.numbers = Quantiles()

    def add(self, values: NDArray[np.int64] | NDArray[np.float32]) -> None:
        for first in range(0, len(values), _VALUES_AT_ONCE):
            self._add(values[first : first + _VALUES_AT_ONCE])

    def _add(self, values: NDArray[np.int64] | NDArray[np.float32]) -> None:
        with np.errstate(invalid="ignore"):  # of a signalling NaN, which is counted below
            numbers = values.astype(np.float64)
        is_nan = np.isnan(numbers)
        if is_nan.any():
            self.nan_count += int(is_nan.sum())
            numbers = numbers[~is_nan]
        self.zero_count += len(numbers) - int(np.count_nonzero(numbers))
        self.numbers.add(numbers)
        finite = numbers[np.isfinite(numbers)]
        if len(finite):
            mean = float(finite.mean())
            self._combine(len(finite), mean, float(np.square(finite - mean).sum()))

    def merge(self, other: NumberSummary) -> None:
        self.nan_count += other.nan_count
        self.zero_count += other.zero_count
        self.numbers.merge(other.numbers)
        if other.finite_count:
            self._combine(other.finite_count, other.mean, other.squares)

    def _combine(self, count: int, mean: float, squares: float) -> None:
        """Merge as Chan, Golub and LeVeque do: no precision is lost between large sums."""
        total = self.finite_count + count
        distance = mean - self.mean
        self.mean += distance * (count / total)
        self.squares += squares + distance * distance * (self.finite_count / total) * count
        self.finite_count = total


class StringSummary:
    """Summary of bytes values. `size`: of all values together."""

    __slots__ = ("size", "values")

    def __init__(self) -> None:
        self.size = 0
        self.values = ValueCounts()

    def add(self, values: list[bytes]) -> None:
        self.size += sum(map(len, values))
        self.values.add(values)

    def merge(self, other: StringSummary) -> None:
        self.size += other.size
        self.values.merge(other.values)


class FeatureSummary:
    """A feature or feature list. `kind`: None until a value or an empty list has one."""

    __slots__ = (
        "kind",
        "lists",
        "missing_step_count",
        "number_values",
        "step_values",
        "steps",
        "string_values",
    )

    def __init__(self) -> None:
        self.kind: Kind | None = None
        self.lists = CountSummary()  # values per record, over records that have the feature
        # For a feature list: steps per record, values per step.
        self.steps: CountSummary | None = None
        self.step_values = CountSummary()
        self.missing_step_count = 0
        self.number_values = NumberSummary()
        self.string_values = StringSummary()

    def add(self, column: Column) -> None:
        self.kind = self.kind or column.kind
        self.lists.add(column.value_counts)
        if column.step_counts is not None:
            self.steps = self.steps or CountSummary()
            self.steps.add(column.step_counts)
            self.missing_step_count += column.missing_step_count
        if column.step_value_counts is not None:
            self.step_values.add(column.step_value_counts)
        if column.kind == "bytes":
            self.string_values.add(list(column.values))
        elif column.kind is not None:
            self.number_values.add(np.asarray(column.values))

    def merge(self, other: FeatureSummary) -> None:
        self.kind = self.kind or other.kind
        self.lists.merge(other.lists)
        if other.steps is not None:
            self.steps = self.steps or CountSummary()
            self.steps.merge(other.steps)
        self.step_values.merge(other.step_values)
        self.missing_step_count += other.missing_step_count
        self.number_values.merge(other.number_values)
        self.string_values.merge(other.string_values)
