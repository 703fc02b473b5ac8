"""The statistics of Examples as rows, one for each feature, as TFDV and Facets show them.

Charts are distributions as bars, in shares of the drawing, for templates that draw them. Bars of
two data sets have the same scales. Numbers may be hostile: values that are not finite are left out.

Concurrency: functions without state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from ffrfs.printable import printable

if TYPE_CHECKING:
    from ffrfs.schema.feature_view import FeatureView
    from ffrfs.schema.messages import Proto

Messages = Sequence[Any]  # FeatureNameStatistics, or None, in each of the data sets
SORTS = ("order", "name", "missing", "non-uniformity", "distance")
Scale = Literal["linear", "log"]
Group = tuple[float, float, float, str]  # low and high end, count, label
_LABELS_MAX = 20


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


@dataclass(frozen=True)
class Feature:
    """The statistics of a feature in one data set. Numbers that do not apply are None."""

    count: int
    missing: float  # a share, as are `zeros`
    values: int
    least: int  # values in a record
    most: int
    mean: float | None = None
    std_dev: float | None = None
    zeros: float | None = None
    min: float | None = None
    median: float | None = None
    max: float | None = None
    unique: int | None = None
    average_length: float | None = None
    top: list[tuple[str, int]] | None = None


@dataclass(frozen=True)
class Row:
    name: str
    type: str
    is_number: bool
    sets: list[Feature | None]
    non_uniformity: float
    distance: float | None
    chart: Chart | None


def feature_rows(statistics: Sequence[Proto]) -> list[tuple[Row, Messages]]:
    """Return rows without charts, and the statistics from which draw() makes the charts."""
    from ffrfs.schema.feature_view import dataset_of, views_of

    by_path = [{view.path: view for view in views_of(dataset_of(one))} for one in statistics]
    paths = dict.fromkeys(path for views in by_path for path in views)
    found = [[views.get(path) for views in by_path] for path in paths]
    return [(_row(views), [view and view.stats for view in views]) for views in found]


def ordered(rows: Sequence[tuple[Row, Messages]], sort: str) -> Sequence[tuple[Row, Messages]]:
    """Return the rows in one of SORTS."""
    keys: dict[str, Callable[[Row], Any]] = {
        "name": lambda row: row.name,
        "missing": lambda row: -max(one.missing if one else 1.0 for one in row.sets),
        "non-uniformity": lambda row: -row.non_uniformity,
        "distance": lambda row: -(2.0 if row.distance is None else row.distance),
    }
    key = keys.get(sort)
    return rows if key is None else sorted(rows, key=lambda pair: key(pair[0]))


def _row(views: Sequence[FeatureView | None]) -> Row:
    from ffrfs.schema.comparators import jensen_shannon
    from ffrfs.schema.messages import name_of, statistics_pb2

    known = [view for view in views if view is not None]
    one = known[0]
    distance = jensen_shannon(known[0], known[1]) if len(known) == 2 else None
    return Row(
        name=printable(".".join(one.path)),
        type=name_of(statistics_pb2.FeatureNameStatistics.Type, one.type),
        is_number=one.is_number,
        sets=[None if view is None else _feature(view) for view in views],
        non_uniformity=_non_uniformity(one),
        distance=distance,
        chart=None,
    )


def _feature(view: FeatureView) -> Feature:
    total = view.present_count + view.missing_count
    common = view.common
    first = Feature(
        count=view.present_count,
        missing=view.missing_count / total if total else 0.0,
        values=common.tot_num_values,
        least=common.min_num_values,
        most=common.max_num_values,
    )
    if view.is_number:
        stats = view.stats.num_stats
        return replace(
            first,
            mean=stats.mean,
            std_dev=stats.std_dev,
            zeros=stats.num_zeros / first.values if first.values else 0.0,
            min=stats.min,
            median=stats.median,
            max=stats.max,
        )
    strings = view.stats.string_stats
    top = [(_short(one.value), int(one.frequency)) for one in strings.top_values[:3]]
    return replace(first, unique=strings.unique, average_length=strings.avg_length, top=top)


def _short(label: str) -> str:
    text = printable(label[:60])
    return text if len(text) <= 40 else f"{text[:39]}…"


def _non_uniformity(view: FeatureView) -> float:
    """Return 0 if all buckets, or all labels, have as many values, and 1 if one has them all."""
    from ffrfs.schema.comparators import STANDARD

    histogram = view.histogram(STANDARD)
    buckets = histogram.buckets if histogram else view.stats.string_stats.rank_histogram.buckets
    counts = [bucket.sample_count for bucket in buckets if bucket.sample_count > 0]
    total = sum(counts)
    if len(buckets) < 2 or not total:
        return 0.0
    entropy = -math.fsum(count / total * math.log(count / total) for count in counts)
    return 1 - entropy / math.log(len(buckets))


def draw(messages: Messages, scale: Scale, is_percent: bool, is_quantiles: bool) -> Chart | None:
    from ffrfs.schema.comparators import QUANTILES, STANDARD
    from ffrfs.schema.feature_view import FeatureView

    views = [None if stats is None else FeatureView(stats, 0) for stats in messages]
    if any(view is not None and not view.is_number for view in views):
        labels = [view.labels if view else {} for view in views]
        return _label_chart(labels, _short, scale, is_percent)
    groups: list[list[Group]] = []
    for view in views:
        found = view.histogram(QUANTILES if is_quantiles else STANDARD) if view else None
        groups.append(
            [
                (one.low_value, one.high_value, one.sample_count, _range(one))
                for one in (found.buckets if found else ())
            ]
        )
    return _chart(groups, scale, is_percent)


def _range(bucket: Proto) -> str:
    return f"{bucket.low_value:.6g} to {bucket.high_value:.6g}"


def _chart(sets: Sequence[Sequence[Group]], scale: Scale, is_percent: bool) -> Chart | None:
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


def _label_chart(
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
    return _chart(groups, scale, is_percent)
