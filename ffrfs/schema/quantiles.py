"""Quantiles: the distribution of numbers, exact while few of them differ, then a sketch.

Up to EXACT_MAX different numbers each has its count, and all answers are exact. Then numbers
go into levels: one of level h counts for 2**h. A level with LEVEL_SIZE numbers is sorted, and
every second one goes up. Each such step moves a rank by at most 2**h, so that ranks of n
numbers are off by at most n * levels / LEVEL_SIZE, where levels = 1 + log2(n / LEVEL_SIZE):
0.2 % of a million, 0.5 % of a billion. There is no randomness: the same numbers, added and
merged in the same order, give the same answers.

Libraries on PyPI draw lots: their answers differ in every run (docs/decisions/029-sketches.md).

Not here: histograms (histograms.py). Concurrency: one thread at a time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EXACT_MAX = 4096
LEVEL_SIZE = 4096


class Quantiles:
    """Numbers without NaN; infinities are numbers. `count`: number of added ones."""

    __slots__ = ("_counts", "_levels", "_odd", "_values", "count", "max", "min")

    def __init__(self) -> None:
        self.count = 0
        self.min, self.max = np.inf, -np.inf
        # While exact: the different numbers, sorted, and the count of each.
        self._values: Floats = np.empty(0)
        self._counts: Ints = np.empty(0, np.int64)
        # With more than EXACT_MAX of them: numbers by level, in parts.
        self._levels: list[list[Floats]] | None = None
        # For each level, which of two numbers goes up next: alternating evens errors out.
        self._odd: list[bool] = []

    def add(self, values: Floats) -> None:
        if not len(values):
            return
        self.count += len(values)
        self.min = min(self.min, float(values.min()))
        self.max = max(self.max, float(values.max()))
        if self._levels is None:
            self._add_exactly(*np.unique(values, return_counts=True))
        else:
            self._put(0, values)
            self._compact()

    def merge(self, other: Quantiles) -> None:
        """Add the numbers of the other one, which stays unchanged."""
        self.count += other.count
        self.min, self.max = min(self.min, other.min), max(self.max, other.max)
        if other._levels is None:
            if self._levels is None:
                self._add_exactly(other._values, other._counts)
            else:
                self._put_counted(other._values, other._counts)
                self._compact()
            return
        if self._levels is None:
            self._make_levels()
        for level, parts in enumerate(other._levels):
            for part in parts:
                self._put(level, part)
        self._compact()

    def samples(self) -> tuple[Floats, Ints]:
        """Return different numbers, sorted, and the weight of each; the weights sum to `count`."""
        if self._levels is None:
            return self._values, self._counts
        parts = [np.concatenate(parts) if parts else np.empty(0) for parts in self._levels]
        weights = [np.full(len(part), 1 << level) for level, part in enumerate(parts)]
        return _counted(np.concatenate(parts), np.concatenate(weights))

    def boundaries(self, bucket_count: int) -> tuple[Floats, Ints]:
        """Return bucket_count + 1 quantiles, and for each the count of numbers up to it.

        A quantile q is the least number that more than q * count numbers do not exceed; the
        first one is the least of all, the last one the greatest.
        """
        values, counts = self.samples()
        cumulative = np.cumsum(counts)
        ranks = np.arange(bucket_count + 1) / bucket_count * self.count
        places = np.minimum(np.searchsorted(cumulative, ranks, side="right"), len(values) - 1)
        bounds, below = values[places], cumulative[places]
        bounds[0], bounds[-1] = self.min, self.max
        below[-1] = self.count
        return bounds, below

    def _add_exactly(self, values: Floats, counts: Ints) -> None:
        if len(self._values):
            values = np.concatenate([self._values, values])
            counts = np.concatenate([self._counts, counts])
            values, counts = _counted(values, counts)
        self._values, self._counts = values, counts
        if len(values) > EXACT_MAX:
            self._make_levels()
            self._compact()

    def _make_levels(self) -> None:
        self._levels = []
        self._put_counted(self._values, self._counts)
        self._values, self._counts = np.empty(0), np.empty(0, np.int64)

    def _put_counted(self, values: Floats, counts: Ints) -> None:
        """Put each number into the levels of the bits of its count."""
        for level in range(int(counts.max(initial=0)).bit_length()):
            chosen = values[(counts >> level) & 1 == 1]
            if len(chosen):
                self._put(level, chosen)

    def _put(self, level: int, values: Floats) -> None:
        assert self._levels is not None
        while len(self._levels) <= level:
            self._levels.append([])
            self._odd.append(False)
        self._levels[level].append(values)

    def _compact(self) -> None:
        assert self._levels is not None
        level = 0
        while level < len(self._levels):
            parts = self._levels[level]
            if sum(map(len, parts)) >= LEVEL_SIZE:
                values = np.sort(np.concatenate(parts))
                even = len(values) & ~1
                # A number without a partner stays.
                self._levels[level] = [values[even:]] if even < len(values) else []
                self._put(level + 1, values[int(self._odd[level]) : even : 2])
                self._odd[level] = not self._odd[level]
            level += 1


def _counted(values: Floats, counts: Ints) -> tuple[Floats, Ints]:
    """Return the different values, sorted, with the sums of their counts."""
    different, places = np.unique(values, return_inverse=True)
    # Sums of float64 are exact up to 2**53.
    sums = np.bincount(places.reshape(-1), weights=counts, minlength=len(different))
    return different, sums.astype(np.int64)
