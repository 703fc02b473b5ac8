"""infer_schema: infers the schema of a data set from its statistics, as TFDV does.

Not here: statistics (statistics.py), checking (validate.py). Concurrency: functions without
state.
"""

from __future__ import annotations

import re

from ffrfs.schema.feature_view import FeatureView, dataset_of, views_of
from ffrfs.schema.messages import Proto, Schema, statistics_pb2
from ffrfs.schema.statistics_message import LARGE_LABEL

DOMAIN_SIZE_MAX = 100

TRUE_LABELS = frozenset({"TRUE", "true", "SET", "set", "1", ""})
FALSE_LABELS = frozenset({"FALSE", "false", "CLEAR", "clear", "0"})

_INT_TYPE = statistics_pb2.FeatureNameStatistics.INT


def infer_schema(
    statistics: Proto,
    infer_feature_shape: bool = True,
    max_string_domain_size: int = DOMAIN_SIZE_MAX,
) -> Proto:
    """Return the Schema of statistics (a DatasetFeatureStatisticsList of one data set).

    `infer_feature_shape`: features with always the same number of values have a shape.
    `max_string_domain_size`: strings with at most so many different values have a domain.
    """
    schema = Schema()
    found: dict[tuple[str, ...], Proto] = {}  # the features, by their paths
    domains: set[str] = set()  # their names
    for view in views_of(dataset_of(statistics)):
        above = found.get(view.path[:-1])
        path = view.path[-1:] if above is None else view.path
        features = schema.feature if above is None else above.struct_domain.feature
        feature = features.add(name=path[-1], type=view.schema_type)
        found.setdefault(path, feature)
        feature.presence.min_count = 1 if view.present_count else 0
        if view.present_count:
            if view.missing_count == 0:
                feature.presence.min_fraction = 1.0
            _add_counts(feature, view, infer_feature_shape)
        _add_domain(schema, domains, feature, view, max_string_domain_size)
    return schema


def _add_counts(feature: Proto, view: FeatureView, has_shape: bool) -> None:
    if has_shape and view.fixed_counts is not None:
        for size in view.fixed_counts:
            feature.shape.dim.add(size=size)
    elif len(view.levels) > 1:
        for level in view.levels:
            _set_counts(feature.value_counts.value_count.add(), level.least, level.most)
    elif view.levels[0].least > 0:
        _set_counts(feature.value_count, view.levels[0].least, view.levels[0].most)


def _set_counts(message: Proto, least: int, most: int) -> None:
    if least == most > 0:
        message.min = message.max = least
    elif least > 0:
        message.min = 1


def _add_domain(
    schema: Proto, taken: set[str], feature: Proto, view: FeatureView, size_max: int
) -> None:
    if view.has_invalid_text:
        return
    labels = sorted(view.labels, key=str.encode)
    unique = view.stats.string_stats.unique
    if view.type == _INT_TYPE and view.stats.HasField("num_stats"):
        numbers = view.stats.num_stats
        if numbers.min >= 0 and numbers.max == 1:
            feature.bool_domain.SetInParent()
    elif not view.is_string or not labels:
        return
    elif _is_bool(labels):
        _set_bool_labels(feature.bool_domain, labels)
    elif all(as_int(label) is not None for label in labels):
        feature.int_domain.SetInParent()
    # With more different values than labels, the domain is unknown.
    elif len(labels) <= size_max and unique <= len(labels) and LARGE_LABEL not in labels:
        feature.domain = _free_name(taken, ".".join(view.path))
        schema.string_domain.add(name=feature.domain).value.extend(labels)


def _is_bool(labels: list[str]) -> bool:
    """Return whether there is at most one label for each truth value, and no other label."""
    true = [label for label in labels if label in TRUE_LABELS]
    false = [label for label in labels if label in FALSE_LABELS]
    return len(true) <= 1 and len(false) <= 1 and len(true) + len(false) == len(labels)


def _set_bool_labels(domain: Proto, labels: list[str]) -> None:
    domain.SetInParent()
    for label in labels:
        if label in TRUE_LABELS:
            domain.true_value = label
        else:
            domain.false_value = label


def as_int(label: str) -> int | None:
    """Return the int64 that a string spells, or None."""
    if not re.fullmatch(r"[ \t\n\r\f\v]*[+-]?[0-9]{1,30}[ \t\n\r\f\v]*", label):
        return None
    number = int(label)
    return number if -(1 << 63) <= number < 1 << 63 else None


def _free_name(taken: set[str], wanted: str) -> str:
    """Return a name that is not in `taken`, and add it there."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}{number}"
    taken.add(name)
    return name
