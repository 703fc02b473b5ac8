"""Checks of one feature against its schema: type, presence, numbers of values, drift and skew.

Not here: domains (domain_checks.py), features that are new or missing (validate.py).
Concurrency: functions without state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from ffrfs.schema import comparators
from ffrfs.schema.feature_view import FeatureView
from ffrfs.schema.messages import Proto, anomalies_pb2, name_of, schema_pb2, statistics_pb2
from ffrfs.schema.reason import Reason, Type, six_digits

_Measurement = anomalies_pb2.DriftSkewInfo.Measurement
_Source = schema_pb2.HistogramSelection

_DROPPED = "Column dropped"
_FEWER = "The feature was present in fewer examples than expected"


def check_itself(feature: Proto) -> Iterator[Reason]:
    """Yield the faults in the schema of a feature."""
    if feature.type == schema_pb2.TYPE_UNKNOWN:
        text = "unspecified type: determine the type and set it, rather than deprecating."
        yield Reason(Type.FEATURE_MISSING_TYPE, text)
        return
    invalid = Type.INVALID_SCHEMA_SPECIFICATION
    if feature.presence.min_fraction < 0:
        yield Reason(invalid, "min_fraction should not be negative: clear is equal to zero")
    if feature.presence.min_fraction > 1:
        yield Reason(invalid, "min_fraction should not greater than 1")
    if feature.value_count.min < 0:
        yield Reason(invalid, "ValueCount.min should not be negative")
    if feature.value_count.HasField("max") and feature.value_count.max < feature.value_count.min:
        yield Reason(invalid, "ValueCount.max should not be less than min")


def check_counts(feature: Proto, view: FeatureView) -> Iterator[Reason]:
    """Yield deviations of the numbers of values in a record."""
    if feature.HasField("value_count"):
        if len(view.levels) > 1:
            yield Reason(
                Type.VALUE_NESTEDNESS_MISMATCH,
                "Mismatched value nest level",
                "This feature has a value_count, but the nestedness level of the feature > 1. "
                "For features with nestedness levels greater than 1, value_counts, not "
                "value_count, should be specified.",
            )
            return
        yield from _check_level(feature.value_count, view.levels[0], ".")
    elif feature.HasField("value_counts"):
        wanted = feature.value_counts.value_count
        if len(wanted) != len(view.levels):
            yield Reason(
                Type.VALUE_NESTEDNESS_MISMATCH,
                "Mismatched value nest level",
                "The values have a different nest level than expected. Value counts will not be "
                "checked.",
            )
            return
        for number, (one, level) in enumerate(zip(wanted, view.levels, strict=True)):
            yield from _check_level(one, level, f" at nestedness level {number}.")
    elif feature.HasField("shape"):
        yield from _check_shape(feature, view)


def _check_level(wanted: Proto, level: Proto, place: str) -> Iterator[Reason]:
    if wanted.HasField("min") and level.least < wanted.min:
        text = f"Some examples have fewer values than expected{place}"
        yield Reason(Type.FEATURE_TYPE_LOW_NUMBER_VALUES, "Missing values", text)
    if wanted.HasField("max") and level.most > max(wanted.max, wanted.min):
        text = f"Some examples have more values than expected{place}"
        yield Reason(Type.FEATURE_TYPE_HIGH_NUMBER_VALUES, "Superfluous values", text)


def _check_shape(feature: Proto, view: FeatureView) -> Iterator[Reason]:
    counts = view.fixed_counts
    if counts is None:
        text = (
            "The feature has a shape, but it's not always present (if the feature is nested, "
            "then it should always be present at each nested level) or its value lengths vary."
        )
        yield Reason(Type.INVALID_FEATURE_SHAPE, "Feature shape dropped", text)
    elif math.prod(counts) != math.prod(dim.size for dim in feature.shape.dim):
        text = (
            f"The feature has fixed value length {math.prod(counts)} but it's not compatible "
            "with the specified shape."
        )
        yield Reason(Type.INVALID_FEATURE_SHAPE, "Feature shape dropped", text)


def check_presence(feature: Proto, view: FeatureView) -> Iterator[Reason]:
    """Yield deviations of the number of records that have the feature."""
    presence = feature.presence
    if presence.HasField("min_count") and view.present_count < presence.min_count:
        text = f"{_FEWER}: minimum count = {presence.min_count}, actual = {view.present_count}"
        yield Reason(Type.FEATURE_TYPE_LOW_NUMBER_PRESENT, _DROPPED, text)
    share = view.present_count / view.example_count if view.missing_count else 1.0
    least = min(presence.min_fraction, 1.0)  # check_itself() reports a larger one
    if presence.HasField("min_fraction") and share < least:
        text = f"{_FEWER}: minimum fraction = {least:.6f}, actual = {share:.6f}"
        yield Reason(Type.FEATURE_TYPE_LOW_FRACTION_PRESENT, _DROPPED, text)


def check_type(feature: Proto, view: FeatureView) -> Iterator[Reason]:
    """Yield a reason if the values are of another type than in the schema."""
    if view.schema_type != feature.type:
        found = name_of(statistics_pb2.FeatureNameStatistics.Type, view.type)
        wanted = name_of(schema_pb2.FeatureType, feature.type)
        text = f"Expected data of type: {wanted} but got {found}"
        yield Reason(Type.UNEXPECTED_DATA_TYPE, "Unexpected data type", text)


def check_unique(feature: Proto, view: FeatureView) -> Iterator[Reason]:
    """Yield deviations of the number of different values."""
    if not feature.HasField("unique_constraints"):
        return
    limits = feature.unique_constraints
    if not view.stats.HasField("string_stats"):
        text = (
            "UniqueConstraints specified for the feature, but unique values were not counted "
            "(i.e., feature is not string or categorical)."
        )
        yield Reason(Type.FEATURE_TYPE_NO_UNIQUE, "No unique values", text)
        return
    unique = view.stats.string_stats.unique
    if unique < limits.min:
        text = f"Expected at least {limits.min} unique values but found only {unique}."
        yield Reason(Type.FEATURE_TYPE_LOW_UNIQUE, "Low number of unique values", text)
    if unique > limits.max:
        text = f"Expected no more than {limits.max} unique values but found {unique}."
        yield Reason(Type.FEATURE_TYPE_HIGH_UNIQUE, "High number of unique values", text)


class Control(NamedTuple):
    """Statistics for a comparison. `view`: None if they lack the feature."""

    name: str  # of these statistics: "previous", "serving"
    treatment: str  # name of the compared data: "current", "training"
    view: FeatureView | None


def compare(
    comparator: Proto,
    view: FeatureView,
    control: Control,
) -> tuple[list[Reason], list[Proto]]:
    """Return violations of the thresholds of `comparator`, and all distances with a threshold."""
    limits = {
        name: getattr(comparator, name).threshold
        for name in ("infinity_norm", "jensen_shannon_divergence", "normalized_abs_difference")
        if getattr(comparator, name).HasField("threshold")
    }
    if limits and control.view is None:
        missing = f"{control.name} data"
        kind = Type.COMPARATOR_CONTROL_DATA_MISSING
        return [Reason(kind, f"{missing} missing", f"{missing} is missing.")], []
    reasons, measurements = [], []
    between = f"between {control.treatment} and {control.name}"
    for name, limit in limits.items():
        assert control.view is not None
        found = _distance(name, comparator, view, control.view)
        if found is None:
            continue
        distance = _DISTANCES[name]
        measurement = _Measurement(type=distance.measured, value=found[1], threshold=limit)
        measurements.append(measurement)
        if found[1] > limit:
            text = (
                f"The {distance.name} {between} is {six_digits(found[1])} (up to six significant "
                f"digits), above the threshold {six_digits(limit)}."
            )
            if found[0] is not None:
                text += f" The feature value with maximum difference is: {found[0]}"
            reasons.append(Reason(distance.high, f"High {distance.name} {between}", text))
    return reasons, measurements


class _Distance(NamedTuple):
    name: str
    measured: int  # type of a Measurement
    high: int  # type of an AnomalyInfo


_DISTANCES = {
    "infinity_norm": _Distance(
        "Linfty distance", _Measurement.L_INFTY, Type.COMPARATOR_L_INFTY_HIGH
    ),
    "jensen_shannon_divergence": _Distance(
        "approximate Jensen-Shannon divergence",
        _Measurement.JENSEN_SHANNON_DIVERGENCE,
        Type.COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH,
    ),
    "normalized_abs_difference": _Distance(
        "normalized absolute difference",
        _Measurement.NORMALIZED_ABSOLUTE_DIFFERENCE,
        Type.COMPARATOR_NORMALIZED_ABSOLUTE_DIFFERENCE_HIGH,
    ),
}


def _distance(
    name: str,
    comparator: Proto,
    view: FeatureView,
    control: FeatureView,
) -> tuple[str | None, float] | None:
    """Return the value that differs most, if any, and the distance; None if there is no data."""
    if name == "infinity_norm":
        return comparators.infinity_norm(view.labels, control.labels)
    if name == "normalized_abs_difference":
        return comparators.absolute_difference(view.labels, control.labels)
    source = comparator.jensen_shannon_divergence.source
    kind = comparators.QUANTILES if source.type == _Source.QUANTILES else comparators.STANDARD
    divergence = comparators.jensen_shannon(view, control, kind)
    return None if divergence is None else (None, divergence)
