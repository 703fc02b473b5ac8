"""The statistics of Examples as rows, one for each feature, as TFDV and Facets show them.

Concurrency: functions without state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ffrfs.printable import printable
from ffrfs.view import charts

if TYPE_CHECKING:
    from ffrfs.schema.feature_view import FeatureView
    from ffrfs.schema.messages import Proto

Messages = Sequence[Any]  # FeatureNameStatistics, or None, in each of the data sets
SORTS = ("order", "name", "missing", "non-uniformity", "distance")


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
    chart: charts.Chart | None


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


def draw(
    messages: Messages, scale: charts.Scale, is_percent: bool, is_quantiles: bool
) -> charts.Chart | None:
    from ffrfs.schema.comparators import QUANTILES, STANDARD
    from ffrfs.schema.feature_view import FeatureView

    views = [None if stats is None else FeatureView(stats, 0) for stats in messages]
    if any(view is not None and not view.is_number for view in views):
        labels = [view.labels if view else {} for view in views]
        return charts.label_chart(labels, _short, scale, is_percent)
    groups: list[list[charts.Group]] = []
    for view in views:
        found = view.histogram(QUANTILES if is_quantiles else STANDARD) if view else None
        groups.append(
            [
                (one.low_value, one.high_value, one.sample_count, _range(one))
                for one in (found.buckets if found else ())
            ]
        )
    return charts.chart(groups, scale, is_percent)


def _range(bucket: Proto) -> str:
    return f"{bucket.low_value:.6g} to {bucket.high_value:.6g}"
