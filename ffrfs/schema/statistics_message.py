"""Converts summaries to the statistics message of TFDV and Facets, with the same fields set.

Not here: the counting (feature.py). Concurrency: functions without state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from ffrfs.schema.columns import SEQUENCE, Path
from ffrfs.schema.feature import CountSummary, FeatureSummary, NumberSummary, StringSummary
from ffrfs.schema.histograms import Bucket, equal_counts, equal_widths
from ffrfs.schema.messages import Proto, Statistics, statistics_pb2
from ffrfs.schema.summary import DatasetSummary

_Feature = statistics_pb2.FeatureNameStatistics
_Histogram = statistics_pb2.Histogram

# TFDV's labels for values without a label.
INVALID_LABEL = "__BYTES_VALUE__"
LARGE_LABEL = "__LARGE_BYTES__"

_TYPES = {"int64": _Feature.INT, "float32": _Feature.FLOAT, "bytes": _Feature.STRING}


class Sizes(NamedTuple):
    """The level of detail of statistics; TFDV's defaults."""

    num_top_values: int = 20
    num_rank_histogram_buckets: int = 1000
    num_values_histogram_buckets: int = 10
    num_histogram_buckets: int = 10
    num_quantiles_histogram_buckets: int = 10


DEFAULT_SIZES = Sizes()


def to_message(summary: DatasetSummary, name: str, sizes: Sizes) -> Proto:
    """Return a DatasetFeatureStatisticsList of one data set."""
    result = Statistics()
    dataset = result.datasets.add(name=name, num_examples=summary.record_count)
    for path, feature in sorted(summary.features.items(), key=lambda item: item[0]):
        message = dataset.features.add()
        message.path.step.extend(path)
        _fill(message, path, feature, summary.record_count, sizes)
    return result


def _fill(
    message: Proto,
    path: Path,
    feature: FeatureSummary,
    record_count: int,
    sizes: Sizes,
) -> None:
    if path == (SEQUENCE,):
        message.type = _Feature.STRUCT
        common = message.struct_stats.common_stats
    elif feature.kind in ("int64", "float32"):
        message.type = _TYPES[feature.kind]
        common = message.num_stats.common_stats
        _fill_numbers(message.num_stats, feature.number_values, sizes)
    else:
        message.type = _Feature.STRING  # also if the type is unknown, as in TFDV
        common = message.string_stats.common_stats
        if feature.lists.total:
            _fill_strings(message.string_stats, feature.string_values, feature.lists.total, sizes)
    lists = feature.lists
    common.num_missing = record_count - lists.count
    _fill_counts(common, lists)
    if lists.count:
        common.avg_num_values = lists.total / lists.count
        buckets = equal_counts(lists.numbers, sizes.num_values_histogram_buckets)
        _fill_buckets(common.num_values_histogram, _Histogram.QUANTILES, buckets)
    if feature.steps is not None:
        _fill_steps(message, common, feature, sizes)


def _fill_counts(message: Proto, counts: CountSummary) -> None:
    message.num_non_missing = counts.count
    if counts.count:
        message.min_num_values = int(counts.numbers.min)
        message.max_num_values = int(counts.numbers.max)
        message.tot_num_values = counts.total


def _fill_steps(message: Proto, common: Proto, feature: FeatureSummary, sizes: Sizes) -> None:
    """Fill in the two levels of a feature list: steps per record, values per step."""
    assert feature.steps is not None
    levels = common.presence_and_valency_stats
    _fill_counts(levels.add(num_missing=common.num_missing), feature.steps)
    _fill_counts(levels.add(num_missing=feature.missing_step_count), feature.step_values)
    numbers = feature.step_values.numbers
    for name, kind, buckets in (
        (
            "quantiles",
            _Histogram.QUANTILES,
            equal_counts(numbers, sizes.num_values_histogram_buckets),
        ),
        ("standard", _Histogram.STANDARD, equal_widths(numbers, sizes.num_histogram_buckets)),
    ):
        added = message.custom_stats.add(name=f"level_2_value_list_length_{name}")
        _fill_buckets(added.histogram, kind, buckets)


def _fill_numbers(message: Proto, found: NumberSummary, sizes: Sizes) -> None:
    numbers = found.numbers
    if numbers.count:
        has_low, has_high = math.isinf(numbers.min), math.isinf(numbers.max)
        message.mean = found.mean
        if has_low or has_high:
            message.mean = numbers.min + numbers.max  # NaN, or the only infinity
        elif found.finite_count:
            message.std_dev = math.sqrt(found.squares / found.finite_count)
        message.num_zeros = found.zero_count
        message.min, message.max = numbers.min, numbers.max
        message.median = float(numbers.boundaries(2)[0][1])
    elif not found.nan_count:
        return
    for kind, buckets in (
        (_Histogram.STANDARD, equal_widths(numbers, sizes.num_histogram_buckets)),
        (_Histogram.QUANTILES, equal_counts(numbers, sizes.num_quantiles_histogram_buckets)),
    ):
        _fill_buckets(message.histograms.add(num_nan=found.nan_count), kind, buckets)


def _fill_strings(message: Proto, found: StringSummary, total: int, sizes: Sizes) -> None:
    values = found.values
    message.avg_length = found.size / total
    message.unique = values.unique
    message.invalid_utf8_count = values.invalid_count
    labels = [(count, value.decode()) for value, count in values.counts.items()]
    labels += [
        (count, label)
        for count, label in (
            (values.invalid_count, INVALID_LABEL),
            (values.large_count, LARGE_LABEL),
        )
        if count
    ]
    labels.sort(reverse=True)
    for count, label in labels[: sizes.num_top_values]:
        message.top_values.add(value=label, frequency=count)
    for rank, (count, label) in enumerate(labels[: sizes.num_rank_histogram_buckets]):
        message.rank_histogram.buckets.add(
            low_rank=rank, high_rank=rank, label=label, sample_count=count
        )


def _fill_buckets(message: Proto, kind: int, buckets: Iterable[Bucket]) -> None:
    message.type = kind
    for low, high, count in buckets:
        message.buckets.add(low_value=low, high_value=high, sample_count=count)
