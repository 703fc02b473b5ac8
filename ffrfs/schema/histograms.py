"""Histograms of numbers, as TFDV defines them: of equal widths, and of equal counts.

A bucket holds the numbers above its low value, up to and including its high value; the first
one also holds its low value. Concurrency: functions without state.
"""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

import numpy as np

from ffrfs.schema.quantiles import Quantiles


class Bucket(NamedTuple):
    low: float
    high: float
    mass: float  # count of numbers; a shared bucket has a fraction


def equal_counts(numbers: Quantiles, bucket_count: int) -> list[Bucket]:
    """Return the buckets between the quantiles; [] if there are no numbers.

    Buckets with the same high value share their numbers evenly.
    """
    if numbers.count == 0:
        return []
    bounds, below = numbers.boundaries(bucket_count)
    counts = np.diff(below).astype(float)
    pairs = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    for _, places in groupby(range(bucket_count), lambda place: pairs[place][1]):
        same = list(places)
        counts[same] = counts[same].sum() / len(same)
    first = [place for place, pair in enumerate(pairs) if pair == pairs[0]]
    counts[first] += below[0] / len(first)
    return [Bucket(*pair, count) for pair, count in zip(pairs, counts.tolist(), strict=True)]


def equal_widths(numbers: Quantiles, bucket_count: int) -> list[Bucket]:
    """Return buckets between the least and the greatest finite number; [] if there are none.

    If these are equal, there is one bucket. Infinities have separate buckets.
    """
    if numbers.count == 0:
        return []
    values, counts = numbers.samples()
    is_finite = np.isfinite(values)
    buckets = []
    if is_finite.any():
        # The sketch may have lost the extreme values.
        least, most = numbers.min, numbers.max
        least = least if np.isfinite(least) else float(values[is_finite][0])
        most = most if np.isfinite(most) else float(values[is_finite][-1])
        edges = np.linspace(least, most, bucket_count + 1 if least < most else 2)
        places = np.searchsorted(edges[1:-1], values[is_finite], side="left")
        sums = np.bincount(places, weights=counts[is_finite], minlength=len(edges) - 1)
        ends = edges.tolist()
        buckets = list(map(Bucket, ends[:-1], ends[1:], sums.tolist()))
    for infinity, place in ((-np.inf, 0), (np.inf, len(buckets) + 1)):
        if count := int(counts[values == infinity].sum()):
            buckets.insert(place, Bucket(infinity, infinity, float(count)))
    return buckets
