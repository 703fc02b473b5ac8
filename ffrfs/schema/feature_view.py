"""FeatureView: the part of a feature's statistics that inferring and checking a schema need.

Statistics may come from us or from TFDV. Not here: inferring (infer.py), the checks.
Concurrency: immutable.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ffrfs.errors import FormatError
from ffrfs.schema.messages import PathType, Proto, schema_pb2, statistics_pb2
from ffrfs.schema.statistics_message import INVALID_LABEL

_Stats = statistics_pb2.FeatureNameStatistics
# Maps the type in a feature's statistics to the type in its schema.
_SCHEMA_TYPES = {
    _Stats.INT: schema_pb2.INT,
    _Stats.FLOAT: schema_pb2.FLOAT,
    _Stats.STRING: schema_pb2.BYTES,
    _Stats.BYTES: schema_pb2.BYTES,
    _Stats.STRUCT: schema_pb2.STRUCT,
}
# The name of the data set of all examples, if there are slices beside it.
_WHOLE = "All Examples"


class Level(NamedTuple):
    """Presence and numbers of values; features with feature lists have two of them."""

    present_count: int
    missing_count: int
    least: int  # smallest number of values
    most: int


class FeatureView:
    """A view of `stats`, a FeatureNameStatistics, in a data set of `example_count` examples."""

    def __init__(self, stats: Proto, example_count: int) -> None:
        self.stats = stats
        self.example_count = example_count
        self.path = tuple(stats.path.step) or (stats.name,)
        self.type: int = stats.type
        self.schema_type = _SCHEMA_TYPES.get(stats.type, schema_pb2.TYPE_UNKNOWN)
        self.common = getattr(stats, stats.WhichOneof("stats")).common_stats
        self.present_count: int = self.common.num_non_missing
        self.missing_count: int = self.common.num_missing
        nested = self.common.presence_and_valency_stats
        self.levels = [
            Level(one.num_non_missing, one.num_missing, one.min_num_values, one.max_num_values)
            for one in nested or [self.common]
        ]
        # Labels and their counts, as far as the statistics have them.
        self.labels: dict[str, float] = {
            bucket.label: bucket.sample_count
            for bucket in stats.string_stats.rank_histogram.buckets
        }
        self.has_invalid_text = (
            stats.string_stats.invalid_utf8_count > 0 or INVALID_LABEL in self.labels
        )

    @property
    def is_string(self) -> bool:
        return bool(self.type == _Stats.STRING)

    @property
    def is_number(self) -> bool:
        return self.type in (_Stats.INT, _Stats.FLOAT) and self.stats.HasField("num_stats")

    @property
    def fixed_counts(self) -> list[int] | None:
        """The number of values at each level, if it never differs and nothing is missing."""
        if any(one.missing_count or one.least != one.most or not one.least for one in self.levels):
            return None
        return [one.least for one in self.levels]

    def histogram(self, kind: int) -> Proto | None:
        """Return the first histogram of that type, if the feature has numbers."""
        found = (one for one in self.stats.num_stats.histograms if one.type == kind)
        return next(found, None) if self.stats.HasField("num_stats") else None


def dataset_of(statistics: Proto, name: PathType = "statistics") -> Proto:
    """Return the only data set of the statistics, or that of all examples beside slices."""
    found = [one for one in statistics.datasets if one.name == _WHOLE]
    found = found or list(statistics.datasets)
    if len(found) != 1:
        reason = f"statistics of {len(found)} data sets, where one is needed"
        raise FormatError.at(os.fspath(name), reason)
    return found[0]


def views_of(dataset: Proto) -> list[FeatureView]:
    """Return views of the features with statistics, in their order."""
    return [
        FeatureView(stats, dataset.num_examples)
        for stats in dataset.features
        if stats.WhichOneof("stats") is not None
    ]
