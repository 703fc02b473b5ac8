"""Distances between two distributions, as TFDV measures drift and skew.

Not here: thresholds (feature_checks.py). Concurrency: functions without state.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ffrfs.schema.feature_view import FeatureView
from ffrfs.schema.messages import Proto, statistics_pb2

STANDARD = statistics_pb2.Histogram.STANDARD
QUANTILES = statistics_pb2.Histogram.QUANTILES

Counts = Mapping[str, float]
Masses = NDArray[np.float64]


def infinity_norm(counts: Counts, control: Counts) -> tuple[str, float]:
    """Return the value whose share differs most, and the difference."""
    return _greatest(counts, control, sum(counts.values()), sum(control.values()))


def absolute_difference(counts: Counts, control: Counts) -> tuple[str, float]:
    """Return the value whose share of both data sets together differs most, and the difference."""
    total = sum(counts.values()) + sum(control.values())
    return _greatest(counts, control, total, total)


def _greatest(
    counts: Counts, control: Counts, total: float, control_total: float
) -> tuple[str, float]:
    found = ("", 0.0)
    for label in sorted({*counts, *control}, key=str.encode):
        share = counts.get(label, 0.0) / total if total else 0.0
        control_share = control.get(label, 0.0) / control_total if control_total else 0.0
        if abs(share - control_share) >= found[1]:
            found = (label, abs(share - control_share))
    return found


def jensen_shannon(view: FeatureView, control: FeatureView, kind: int = STANDARD) -> float | None:
    """Return the Jensen-Shannon divergence, from 0 to 1; None if there is no distribution.

    It is that of labels, else of histograms of the type `kind`: approximate then, since numbers
    are taken as evenly distributed in a bucket.
    """
    if view.labels and control.labels:
        labels = sorted({*view.labels, *control.labels})
        return _divergence(
            np.array([view.labels.get(label, 0.0) for label in labels]),
            np.array([control.labels.get(label, 0.0) for label in labels]),
        )
    histogram, other = view.histogram(kind), control.histogram(kind)
    if histogram is None or other is None:
        return None
    return _divergence(*_aligned(histogram, other))


def _divergence(first: Masses, second: Masses) -> float | None:
    for masses in (first, second):
        if not np.isfinite(masses).all() or (masses < 0).any() or not masses.sum():
            return None
    first, second = first / first.sum(), second / second.sum()
    mean = (first + second) / 2
    halves = 0.0
    for masses in (first, second):
        there = masses > 0
        halves += float((masses[there] * np.log2(masses[there] / mean[there])).sum())
    return min(max(halves / 2, 0.0), 1.0)


def _aligned(first: Proto, second: Proto) -> tuple[Masses, Masses]:
    """Return the masses of the same parts of the number line: buckets, single numbers, NaN.

    Infinities are single numbers. A bucket with one infinite end equals none of the other side.
    """
    edges: set[float] = set()
    points: set[float] = set()
    for bucket in (*first.buckets, *second.buckets):
        if bucket.low_value == bucket.high_value:
            points.add(bucket.low_value)
        elif _is_finite(bucket):
            edges |= {bucket.low_value, bucket.high_value}
    masses, others = zip(
        *(_masses(histogram, sorted(edges), sorted(points)) for histogram in (first, second)),
        strict=True,
    )
    return np.array([*masses[0], others[0], 0.0]), np.array([*masses[1], 0.0, others[1]])


def _masses(histogram: Proto, edges: list[float], points: list[float]) -> tuple[list[float], float]:
    """Return the masses between the edges, at the points and of NaN; and that of the rest."""
    between: dict[float, float] = defaultdict(float)  # by low edge
    at: dict[float, float] = defaultdict(float)
    rest = 0.0
    for bucket in histogram.buckets:
        low, high, count = bucket.low_value, bucket.high_value, bucket.sample_count
        if low == high:
            at[low] += count
        elif _is_finite(bucket):
            inside = [edge for edge in edges if low <= edge <= high]
            for start, end in pairwise(inside):
                between[start] += count * ((end - start) / (high - low))
        else:
            rest += count
    masses = [between[edge] for edge in edges[:-1]] + [at[point] for point in points]
    return [*masses, float(histogram.num_nan)], rest


def _is_finite(bucket: Proto) -> bool:
    return math.isfinite(bucket.low_value) and math.isfinite(bucket.high_value)
