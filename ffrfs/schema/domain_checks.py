"""Checks of values against the domain that a schema gives them.

Not here: presence, counts and types (feature_checks.py). Concurrency: functions without state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from ffrfs.schema.comparators import STANDARD
from ffrfs.schema.feature_view import FeatureView
from ffrfs.schema.infer import as_int
from ffrfs.schema.messages import Proto, name_of, schema_pb2, statistics_pb2
from ffrfs.schema.reason import Reason, Type, six_digits

# The domains of strings in a schema, by their names.
Domains: TypeAlias = Mapping[str, Proto]

_INT = statistics_pb2.FeatureNameStatistics.INT
_FLOAT = statistics_pb2.FeatureNameStatistics.FLOAT

_OUT_OF_RANGE = "Out-of-range values"
_INVALID = "Invalid values"
_NOT_BOOLEAN = "Non-boolean values"

_ALLOWED_TYPES = {
    "domain": {schema_pb2.BYTES},
    "string_domain": {schema_pb2.BYTES},
    "bool_domain": {schema_pb2.INT, schema_pb2.BYTES, schema_pb2.FLOAT},
    "int_domain": {schema_pb2.INT, schema_pb2.BYTES},
    "float_domain": {schema_pb2.FLOAT, schema_pb2.BYTES},
    "struct_domain": {schema_pb2.STRUCT},
    "natural_language_domain": {schema_pb2.INT, schema_pb2.BYTES},
    "image_domain": {schema_pb2.BYTES},
    "mid_domain": {schema_pb2.BYTES},
    "url_domain": {schema_pb2.BYTES},
    "time_domain": {schema_pb2.INT, schema_pb2.BYTES},
}
# Domains that TFDV's texts name; the others are "semantic" there.
_OWN_NAMES = {
    "bool_domain": "bool",
    "int_domain": "int",
    "float_domain": "float",
    "struct_domain": "struct",
}


def check_domain_itself(domains: Domains, feature: Proto) -> Iterator[Reason]:
    """Yield the faults in the schema's domain of a feature, whatever the data are."""
    field = feature.WhichOneof("domain_info")
    if not _fits(feature, field):
        yield Reason(
            Type.DOMAIN_INVALID_FOR_TYPE,
            "The domain does not match the type",
            f'The domain "{field}" does not match the type: '
            + name_of(schema_pb2.FeatureType, feature.type),
        )
        field = None  # it counts as absent, as in TFDV
    if field == "domain":
        if feature.domain not in domains:
            yield Reason(Type.INVALID_DOMAIN_SPECIFICATION, f"missing domain: {feature.domain}")
    elif field != "string_domain" and feature.HasField("distribution_constraints"):
        text = "distribution constraints require domain or string domain."
        if field is not None:
            kind = _OWN_NAMES.get(field, "semantic")
            text = f"distribution constraints not supported for {kind} domains."
        yield Reason(Type.INVALID_SCHEMA_SPECIFICATION, text)


def _fits(feature: Proto, field: str | None) -> bool:
    return field not in _ALLOWED_TYPES or feature.type in _ALLOWED_TYPES[field]


def check_domain(domains: Domains, feature: Proto, view: FeatureView) -> Iterator[Reason]:
    """Yield the deviations of a feature's values from its domain."""
    field = feature.WhichOneof("domain_info")
    if not _fits(feature, field):
        return
    if field == "domain":
        if feature.domain in domains:
            yield from _strings(feature, view, domains[feature.domain])
    elif field == "string_domain":
        yield from _strings(feature, view, feature.string_domain)
    elif field == "bool_domain":
        yield from _bools(feature.bool_domain, view)
    elif field == "int_domain":
        yield from _ints(feature.int_domain, view)
    elif field == "float_domain":
        yield from _floats(feature.float_domain, view)


def _strings(feature: Proto, view: FeatureView, domain: Proto) -> Iterator[Reason]:
    if view.has_invalid_text:
        yield Reason(
            Type.ENUM_TYPE_INVALID_UTF8,
            "Invalid UTF8 strings",
            "Found strings that were not valid UTF8 strings.",
        )
        return
    known = set(domain.value)
    labels = sorted(view.labels, key=str.encode)
    missing = {label: view.labels[label] for label in labels if label not in known}
    constraints = feature.distribution_constraints
    off_max = 1.0 - constraints.min_domain_mass if constraints.HasField("min_domain_mass") else 0.0
    total = view.common.tot_num_values
    # If the statistics do not have the total, the share is unknown.
    share = sum(missing.values()) / total if total else math.inf
    if missing and (off_max == 0 or share > off_max):
        listed = ", ".join(f"{_escaped(one)} ({_percent(missing[one], total)})" for one in missing)
        yield Reason(
            Type.ENUM_TYPE_UNEXPECTED_STRING_VALUES,
            "Unexpected string values",
            f"Examples contain values missing from the schema: {listed}. ",
        )


def _percent(count: float, total: float) -> str:
    if not total:
        return "?"
    share = 100 * count / total
    return "<1%" if share < 1 else f"~{math.floor(share)}%"


def _escaped(label: str) -> str:
    """Return the label with escapes for control characters and quotes, as in C."""
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'", "\\": "\\\\"}
    return "".join(
        named.get(char) or (f"\\{ord(char):03o}" if ord(char) < 32 or ord(char) == 127 else char)
        for char in label
    )


def _bools(domain: Proto, view: FeatureView) -> Iterator[Reason]:
    numbers = view.stats.num_stats
    if view.type == _INT and view.is_number:
        ends = ((Type.BOOL_TYPE_SMALL_INT, numbers.min), (Type.BOOL_TYPE_BIG_INT, numbers.max))
        for kind, number in ends:
            if not 0 <= number <= 1:
                text = f"Integers (such as {six_digits(number)}) not in {{0, 1}}"
                yield Reason(kind, _NOT_BOOLEAN, f"{text}: converting to an integer.")
                return
    elif view.type == _FLOAT:
        text = _not_boolean(view)
        if text:
            text = f"Float{text}: converting to float_domain."
            yield Reason(Type.BOOL_TYPE_UNEXPECTED_FLOAT, _NOT_BOOLEAN, text)
    elif view.is_string:
        valid = sorted(
            getattr(domain, field)
            for field in ("true_value", "false_value")
            if domain.HasField(field)
        )
        for label in sorted(view.labels, key=str.encode):
            if label not in valid:
                listed = '{"' + '", "'.join(valid) + '"}' if valid else "{}"
                text = f'Saw unexpected value "{label}" instead of {listed}.'
                yield Reason(Type.BOOL_TYPE_UNEXPECTED_STRING, _NOT_BOOLEAN, text)
                return


def _not_boolean(view: FeatureView) -> str:
    """Return a text about floats other than 0 and 1, as far as histograms show them, or ""."""
    numbers = view.stats.num_stats
    for number in (numbers.min, numbers.max):
        if number not in (0.0, 1.0):
            return f"s (such as {six_digits(number)}) not in {{0, 1}}"
    histogram = view.histogram(STANDARD)
    if histogram is None:
        return ""
    if histogram.num_nan:
        return "s (such as NaN) not in {0, 1}"
    inside = (
        bucket
        for bucket in histogram.buckets
        if bucket.sample_count > 0 and bucket.low_value > 0 and bucket.high_value < 1
    )
    return " values falling between 0 and 1" if next(inside, None) is not None else ""


def _ints(domain: Proto, view: FeatureView) -> Iterator[Reason]:
    if view.is_string:
        numbers = []
        for label in sorted(view.labels, key=str.encode):
            number = as_int(label)
            if number is None:
                text = f'String values that were not ints were found, such as "{label}".'
                yield Reason(Type.INT_TYPE_NOT_INT_STRING, _INVALID, text)
                return
            numbers.append(number)
    elif view.type == _INT and view.is_number:
        ends = (view.stats.num_stats.min, view.stats.num_stats.max)
        numbers = [int(end) for end in ends if math.isfinite(end)]
    else:
        return
    if not numbers:
        return
    if domain.HasField("min") and min(numbers) < domain.min:
        text = f"Unexpectedly small value: {min(numbers)}."
        yield Reason(Type.INT_TYPE_SMALL_INT, _OUT_OF_RANGE, text)
    if domain.HasField("max") and max(numbers) > domain.max:
        text = f"Unexpectedly large value: {max(numbers)}."
        yield Reason(Type.INT_TYPE_BIG_INT, _OUT_OF_RANGE, text)


def _floats(domain: Proto, view: FeatureView) -> Iterator[Reason]:
    has_nan = False
    if view.is_string:
        numbers = []
        for label in sorted(view.labels, key=str.encode):
            number = _as_float(label)
            if number is None:
                text = f'String values that were not floats were found, such as "{label}".'
                yield Reason(Type.FLOAT_TYPE_STRING_NOT_FLOAT, _INVALID, text)
                return
            numbers.append(number)
        has_nan = any(map(math.isnan, numbers))
        numbers = [number for number in numbers if not math.isnan(number)]
    elif view.type == _FLOAT and view.is_number:
        has_nan = any(histogram.num_nan for histogram in view.stats.num_stats.histograms)
        numbers = [view.stats.num_stats.min, view.stats.num_stats.max]
    else:
        return
    if has_nan and domain.disallow_nan:
        yield Reason(Type.FLOAT_TYPE_HAS_NAN, _INVALID, "Float feature has NaN values.")
    if not numbers:
        return
    yield from _float_range(domain, min(numbers), max(numbers))


def _float_range(domain: Proto, least: float, most: float) -> Iterator[Reason]:
    if domain.HasField("min") and least < domain.min:
        text = f"{six_digits(least)}<{six_digits(domain.min)}"
        text = f"Unexpectedly low values: {text}(upto six significant digits)"
        yield Reason(Type.FLOAT_TYPE_SMALL_FLOAT, _OUT_OF_RANGE, text)
    if domain.HasField("max") and most > domain.max:
        text = f"{six_digits(most)}>{six_digits(domain.max)}"
        text = f"Unexpectedly high value: {text}(upto six significant digits)"
        yield Reason(Type.FLOAT_TYPE_BIG_FLOAT, _OUT_OF_RANGE, text)
    if domain.disallow_inf and (math.isinf(least) or math.isinf(most)):
        yield Reason(Type.FLOAT_TYPE_HAS_INF, _INVALID, "Float feature has Inf values.")


def _as_float(label: str) -> float | None:
    try:
        return float(label) if "_" not in label else None
    except ValueError:
        return None
