"""validate_statistics: finds deviations of data from a schema, or between two data sets.

Not here: the checks of one feature (feature_checks.py, domain_checks.py). Concurrency:
functions without state.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from ffrfs.schema.domain_checks import check_domain, check_domain_itself
from ffrfs.schema.feature_checks import (
    Control,
    check_counts,
    check_itself,
    check_presence,
    check_type,
    check_unique,
    compare,
)
from ffrfs.schema.feature_view import FeatureView, dataset_of, views_of
from ffrfs.schema.messages import Anomalies, Proto, schema_pb2
from ffrfs.schema.reason import Reason, Type, six_digits

_DEPRECATED = {
    schema_pb2.PLANNED,
    schema_pb2.ALPHA,
    schema_pb2.DEPRECATED,
    schema_pb2.DEBUG_ONLY,
}


def validate_statistics(
    statistics: Proto,
    schema: Proto,
    environment: str | None = None,
    previous_statistics: Proto = None,
    serving_statistics: Proto = None,
) -> Proto:
    """Return the Anomalies of statistics (a DatasetFeatureStatisticsList of one data set).

    `environment`: selects the expected features (default_environment, in_environment and
    not_in_environment of the schema). `previous_statistics`: compared by drift_comparator;
    `serving_statistics`: by skew_comparator.
    """
    dataset = dataset_of(statistics)
    result = Anomalies(anomaly_name_format=Anomalies.SERIALIZED_PATH)
    result.baseline.CopyFrom(schema)
    if dataset.num_examples == 0:
        result.data_missing = True
        return result
    validation = _Validation(schema, environment, previous_statistics, serving_statistics)
    views = views_of(dataset)
    for view in views:
        reasons, info = validation.check(view)
        _add(result, view.path, reasons)
        if info is not None:
            result.drift_skew_info.append(info)
    present = {view.path for view in views}
    for path in validation.required():
        if path not in present:
            text = "Column is completely missing"
            _add(result, path, [Reason(Type.SCHEMA_MISSING_COLUMN, "Column dropped", text)])
    previous = None if previous_statistics is None else dataset_of(previous_statistics)
    of_dataset = list(_check_dataset(schema.dataset_constraints, dataset, previous))
    if of_dataset:
        _fill(result.dataset_anomaly_info, of_dataset)
    return result


class _Validation:
    def __init__(
        self, schema: Proto, environment: str | None, previous: Proto, serving: Proto
    ) -> None:
        self._schema, self._environment = schema, environment
        # Of several with one path, or one name, the first counts.
        self._features: dict[tuple[str, ...], Proto] = {}
        self._note(schema.feature, ())
        self._domains = {domain.name: domain for domain in reversed(schema.string_domain)}
        self._controls = {
            "drift_comparator": ("previous", "current", _by_path(previous)),
            "skew_comparator": ("serving", "training", _by_path(serving)),
        }

    def _note(self, features: Proto, above: tuple[str, ...]) -> None:
        for feature in features:
            path = (*above, feature.name)
            if path not in self._features:
                self._features[path] = feature
                self._note(feature.struct_domain.feature, path)

    def check(self, view: FeatureView) -> tuple[list[Reason], Proto]:
        """Return the deviations of a feature, and its DriftSkewInfo or None."""
        above = [self._features.get(view.path[:length]) for length in range(1, len(view.path))]
        if any(parent is not None and _is_deprecated(parent) for parent in above):
            return [], None
        feature = self._features.get(view.path)
        if feature is None:
            text = "New column (column in data but not in schema)"
            return [Reason(Type.SCHEMA_NEW_COLUMN, "New column", text)], None
        if _is_deprecated(feature):
            return [], None
        reasons = list(check_itself(feature))
        if feature.type == schema_pb2.TYPE_UNKNOWN:
            return reasons, None
        reasons += check_domain_itself(self._domains, feature)
        if view.present_count == 0:
            text = "The feature was not present in any examples."
            if self._is_required(feature):
                reasons.append(Reason(Type.FEATURE_TYPE_NOT_PRESENT, "Column dropped", text))
            return reasons, None
        reasons += self._check_present(feature, view)
        info = None
        for name, (control, treatment, views) in self._controls.items():
            if views is None or not feature.HasField(name):
                continue
            compared = Control(control, treatment, views.get(view.path))
            found, measurements = compare(getattr(feature, name), view, compared)
            reasons += found
            if measurements:
                info = info or _drift_skew_info(view.path)
                field = "drift_measurements" if control == "previous" else "skew_measurements"
                getattr(info, field).extend(measurements)
        return reasons, info

    def _check_present(self, feature: Proto, view: FeatureView) -> Iterator[Reason]:
        if not self._is_in_environment(feature):
            yield Reason(
                Type.SCHEMA_NEW_COLUMN,
                "Column missing in environment",
                f"New column {'.'.join(view.path)} found in data but not in the environment "
                f"{self._environment} in the schema.",
            )
        checks = (check_counts, check_presence, check_type)
        yield from chain.from_iterable(check(feature, view) for check in checks)
        yield from check_domain(self._domains, feature, view)
        yield from check_unique(feature, view)

    def required(self) -> Iterator[tuple[str, ...]]:
        """Yield the paths of the features that must be in the data."""
        yield from self._required(self._schema.feature, ())

    def _required(self, features: Proto, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for feature in features:
            path = (*above, feature.name)
            if self._is_required(feature):
                yield path
            if not _is_deprecated(feature):
                yield from self._required(feature.struct_domain.feature, path)

    def _is_required(self, feature: Proto) -> bool:
        presence = feature.presence
        if _is_deprecated(feature) or (presence.min_count <= 0 and presence.min_fraction <= 0):
            return False
        return self._is_in_environment(feature)

    def _is_in_environment(self, feature: Proto) -> bool:
        name = self._environment
        if name is None or name in feature.in_environment:
            return True
        return name not in feature.not_in_environment and name in self._schema.default_environment


def _by_path(statistics: Proto) -> dict[tuple[str, ...], FeatureView] | None:
    if statistics is None:
        return None
    return {view.path: view for view in views_of(dataset_of(statistics))}


def _is_deprecated(feature: Proto) -> bool:
    return feature.deprecated or feature.lifecycle_stage in _DEPRECATED


def _drift_skew_info(path: tuple[str, ...]) -> Proto:
    info = Anomalies().drift_skew_info.add()
    info.path.step.extend(path)
    return info


def _check_dataset(limits: Proto, dataset: Proto, previous: Proto) -> Iterator[Reason]:
    """Yield deviations of the number of examples."""
    count = dataset.num_examples
    has = f"The dataset has {count} examples, which is"
    if limits.HasField("min_examples_count") and count < limits.min_examples_count:
        short = "Low num examples in dataset."
        yield Reason(Type.DATASET_LOW_NUM_EXAMPLES, short, f"{has} fewer than expected.")
    if limits.HasField("max_examples_count") and count > limits.max_examples_count:
        short = "High num examples in dataset."
        yield Reason(Type.DATASET_HIGH_NUM_EXAMPLES, short, f"{has} more than expected.")
    if previous is not None and previous.num_examples:
        ratio = count / previous.num_examples
        yield from _check_ratio(limits.num_examples_drift_comparator, ratio)


def _check_ratio(comparator: Proto, ratio: float) -> Iterator[Reason]:
    versus = "num examples in current dataset versus the previous span."
    text = (
        "The ratio of num examples in the current dataset versus the previous span is "
        f"{six_digits(ratio)} (up to six significant digits), which is"
    )
    most, least = comparator.max_fraction_threshold, comparator.min_fraction_threshold
    if comparator.HasField("max_fraction_threshold") and ratio > most:
        long = f"{text} above the threshold {six_digits(most)}."
        yield Reason(Type.COMPARATOR_HIGH_NUM_EXAMPLES, f"High {versus}", long)
    if comparator.HasField("min_fraction_threshold") and ratio < least:
        long = f"{text} below the threshold {six_digits(least)}."
        yield Reason(Type.COMPARATOR_LOW_NUM_EXAMPLES, f"Low {versus}", long)


def _add(result: Proto, path: tuple[str, ...], reasons: list[Reason]) -> None:
    if reasons:
        info = result.anomaly_info[".".join(path)]
        info.path.step.extend(path)
        _fill(info, reasons)


def _fill(info: Proto, reasons: list[Reason]) -> None:
    info.severity = Type.ERROR
    for reason in reasons:
        info.reason.add(type=reason.type, short_description=reason.short, description=reason.long)
    told = [reason for reason in reasons if reason.long]
    info.description = " ".join(reason.long for reason in told)
    several = len(told) > 1
    info.short_description = "Multiple errors" if several else (told or reasons)[0].short
