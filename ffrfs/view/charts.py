"""Charts: distributions as bars, in shares of the drawing, for templates that draw them.

Bars of two data sets have the same scales. Numbers may be hostile: values that are not finite are
left out. Concurrency: functions without state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

Scale = Literal["linear", "log"]
_LABELS_MAX = 20
Group = tuple[float, float, float, str]  # low and high end, count, label


@dataclass(frozen=True)
class Bar:
    """`x`, `width`, `height`: from 0 to 1. `count`: of values; a fraction in shared buckets."""

    x: float
    width: float
    height: float
    count: float
    label: str


@dataclass(frozen=True)
class Chart:
    low: float
    high: float
    series: list[list[Bar]]  # one for each data set


def chart(sets: Sequence[Sequence[Group]], scale: Scale, is_percent: bool) -> Chart | None:
    """Return bars over a common range; None if there is nothing to draw.

    The height is that of so many values in a tenth of the range, as widths differ between sets.
    """
    sets = [[one for one in groups if all(map(math.isfinite, one[:3]))] for groups in sets]
    ends = [end for low, high, *_ in chain(*sets) for end in (low, high)]
    if not ends:
        return None
    least, most = min(ends), max(ends)
    span = (most / 2 - least / 2) * 2  # of two large numbers, it may still be infinite
    if not math.isfinite(span):
        return None
    begin = least
    if not span:
        begin, span = least - 0.5, 1.0
    heights = [[*_heights(groups, span, scale, is_percent)] for groups in sets]
    highest = max(chain(*heights), default=0.0) or 1.0
    series = [
        [
            Bar(
                (low - begin) / span, max((high - low) / span, 0.01), height / highest, count, label
            )
            for (low, high, count, label), height in zip(groups, of_set, strict=True)
        ]
        for groups, of_set in zip(sets, heights, strict=True)
    ]
    return Chart(least, most, series)


def _heights(
    groups: Sequence[Group], span: float, scale: Scale, is_percent: bool
) -> Iterable[float]:
    total = sum(count for _, _, count, _ in groups) or 1.0
    for low, high, count, _ in groups:
        width = (high - low) / span
        height = count / width / 10 if width > 0.1 else count
        height = height / total if is_percent else height
        yield math.log1p(height * (10_000 if is_percent else 1)) if scale == "log" else height


def label_chart(
    sets: Sequence[dict[str, float]], text: Callable[[str], str], scale: Scale, is_percent: bool
) -> Chart | None:
    """Return a bar for each of the most frequent labels of the first set, then of the others."""
    labels = list(dict.fromkeys(chain(*sets)))[:_LABELS_MAX]
    groups = [
        [
            (float(place), place + 0.9, counts[label], text(label))
            for place, label in enumerate(labels)
            if label in counts
        ]
        for counts in sets
    ]
    return chart(groups, scale, is_percent)
