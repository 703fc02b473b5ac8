"""Schemas, statistics and anomalies as rows of text, for people.

Not here: printing (ffrfs.cli). Concurrency: functions without state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ffrfs.printable import printable
from ffrfs.schema.feature_view import FeatureView, dataset_of, views_of
from ffrfs.schema.messages import Proto, anomalies_pb2, name_of, schema_pb2, statistics_pb2

# All rows have the same number of texts; the first row has the titles.
Rows: TypeAlias = list[tuple[str, ...]]

_LABELS_MAX = 10
_LABEL_WIDTH = 24
_NAME_WIDTH = 100  # each row is as wide as the longest name
_DESCRIPTION_WIDTH = 1000
_Measurement = anomalies_pb2.DriftSkewInfo.Measurement


def schema_rows(schema: Proto) -> Rows:
    """Return a row for each feature, as in TFDV's display_schema()."""
    rows: Rows = [("feature", "type", "presence", "valency", "domain")]
    _add_features(rows, schema.feature, "")
    return rows


def _add_features(rows: Rows, features: Iterable[Proto], above: str) -> None:
    for feature in features:
        name = above + feature.name
        cells = (_type(feature), _presence(feature), _valency(feature), _domain(feature))
        rows.append((_short(name, _NAME_WIDTH), *cells))
        _add_features(rows, feature.struct_domain.feature, f"{name}.")


def _type(feature: Proto) -> str:
    is_text = feature.WhichOneof("domain_info") in ("domain", "string_domain")
    name: str = name_of(schema_pb2.FeatureType, feature.type)
    return "STRING" if name == "BYTES" and is_text else name


def _presence(feature: Proto) -> str:
    if not feature.HasField("presence"):
        return "-"
    return "required" if feature.presence.min_fraction == 1.0 else "optional"


def _valency(feature: Proto) -> str:
    kind = feature.WhichOneof("shape_type")
    if kind == "shape":
        sizes = [str(dim.size) for dim in feature.shape.dim]
        return "single" if sizes == ["1"] else f"shape [{', '.join(sizes)}]"
    if kind == "value_count":
        return _counts(feature.value_count)
    if kind == "value_counts":
        return ", ".join(map(_counts, feature.value_counts.value_count))
    return "-"


def _counts(counts: Proto) -> str:
    if counts.min == counts.max == 1:
        return "single"
    return f"[{counts.min}, {counts.max}]" if counts.HasField("max") else f"[{counts.min}, inf)"


def _domain(feature: Proto) -> str:
    kind = feature.WhichOneof("domain_info")
    if kind == "domain":
        return f"'{printable(feature.domain)}'"
    if kind in ("int_domain", "float_domain"):
        domain = getattr(feature, kind)
        ends = [
            f"{end}: {getattr(domain, end):.6g}" for end in ("min", "max") if domain.HasField(end)
        ]
        return "; ".join(ends) or kind.partition("_")[0]
    if kind == "bool_domain":
        return "bool"
    return "-" if kind in (None, "struct_domain") else str(kind).removesuffix("_domain")


def domain_rows(schema: Proto) -> Rows:
    """Return a row for each domain of strings."""
    rows: Rows = [("domain", "values")]
    for domain in schema.string_domain:
        shown = [f"'{_short(value)}'" for value in domain.value[:_LABELS_MAX]]
        more = len(domain.value) - len(shown)
        text = ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")
        rows.append((f"'{_short(domain.name, _NAME_WIDTH)}'", text))
    return rows


def _short(text: str, width: int = _LABEL_WIDTH) -> str:
    text = printable(text)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def number_rows(statistics: Proto) -> Rows:
    """Return a row for each feature of numbers."""
    rows: Rows = [
        ("numbers", "type", "missing", "values", "mean", "std_dev", "zeros", "min", "median", "max")
    ]
    for view in views_of(dataset_of(statistics)):
        if not view.is_number:
            continue
        stats = view.stats.num_stats
        numbers = (stats.mean, stats.std_dev, stats.num_zeros, stats.min, stats.median, stats.max)
        rows.append((*_first_cells(view), *(f"{number:.6g}" for number in numbers)))
    return rows


def string_rows(statistics: Proto) -> Rows:
    """Return a row for each feature of bytes, and of feature lists together."""
    rows: Rows = [("bytes", "type", "missing", "values", "unique", "avg_length", "most frequent")]
    for view in views_of(dataset_of(statistics)):
        if view.is_number:
            continue
        stats = view.stats.string_stats
        unique = f"{stats.unique:,}" if stats.unique else "-"
        length = f"{stats.avg_length:.6g}" if stats.avg_length else "-"
        top = [f"'{_short(one.value)}' {one.frequency:,.0f}" for one in stats.top_values[:3]]
        rows.append((*_first_cells(view), unique, length, ", ".join(top) or "-"))
    return rows


def _first_cells(view: FeatureView) -> tuple[str, ...]:
    total = view.missing_count + view.present_count
    missing = f"{view.missing_count / total:.1%}" if view.missing_count and total else "0"
    least, most = view.common.min_num_values, view.common.max_num_values
    counts = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    name = _short(".".join(view.path), _NAME_WIDTH)
    return name, name_of(statistics_pb2.FeatureNameStatistics.Type, view.type), missing, counts


def anomaly_rows(anomalies: Proto) -> Rows:
    """Return a row for each feature that deviates from the schema, and for the data set."""
    rows: Rows = [("feature", "anomaly", "what was found")]
    for name in sorted(anomalies.anomaly_info):
        info = anomalies.anomaly_info[name]
        found = _short(info.description, _DESCRIPTION_WIDTH)
        rows.append((_short(name, _NAME_WIDTH), info.short_description, found))
    if anomalies.HasField("dataset_anomaly_info"):
        info = anomalies.dataset_anomaly_info
        rows.append(("(the data set)", info.short_description, info.description))
    return rows


def distance_rows(anomalies: Proto) -> Rows:
    """Return a row for each distance to other data that the schema limits."""
    rows: Rows = [("feature", "to", "distance", "value", "threshold")]
    for info in anomalies.drift_skew_info:
        name = _short(".".join(info.path.step), _NAME_WIDTH)
        for to in ("drift", "skew"):
            for one in getattr(info, f"{to}_measurements"):
                kind = name_of(_Measurement.Type, one.type)
                rows.append((name, to, kind, f"{one.value:.6g}", f"{one.threshold:.6g}"))
    return rows
