"""Statistics, schemas and anomalies are those that TFDV publishes for the same inputs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message

from ffrfs.schema import Schema, Sizes, Statistics, infer_schema, validate_statistics
from ffrfs.schema.comparators import infinity_norm, jensen_shannon
from ffrfs.schema.feature_view import FeatureView
from ffrfs.schema.messages import anomalies_pb2, statistics_pb2
from tests.schema import published
from tests.schema.records import by_name, statistics_of

# The allowed error in buckets of equal widths, which TFDV estimates.
ESTIMATE = 0.05


def differences(found: Any, wanted: Any, place: str = "", error: float = 1e-6) -> list[str]:
    """Return where `found` differs from a field that `wanted` has."""
    result = []
    if isinstance(wanted, statistics_pb2.Histogram) and wanted.type == wanted.STANDARD:
        error = ESTIMATE
    for field, value in wanted.ListFields():
        there = getattr(found, field.name)
        at = f"{place}.{field.name}"
        if isinstance(value, Message):
            result += differences(there, value, at, error)
        elif field.message_type and len(there) < len(value):
            result.append(f"{at}: {len(there)}, not {len(value)}")
        elif field.message_type:
            for number, one in enumerate(value):
                result += differences(there[number], one, f"{at}[{number}]", error)
        elif isinstance(value, float):
            is_same = math.isclose(there, value, rel_tol=1e-6, abs_tol=error)
            if not is_same and not (math.isnan(there) and math.isnan(value)):
                result.append(f"{at}: {there}, not {value}")
        elif there != value:
            result.append(f"{at}: {there}, not {value}")
    return result


@pytest.mark.parametrize("name", published.STATISTICS)
def test_statistics(tmp_path: Path, name: str) -> None:
    records, sizes, features = published.STATISTICS[name]
    dataset = statistics_of(tmp_path, records, Sizes(20, 1000, *sizes))
    assert dataset.num_examples == len(records)
    found = by_name(dataset)
    for text in features:
        wanted = published.parse(text, statistics_pb2.FeatureNameStatistics())
        one = found.pop(".".join(wanted.path.step))
        assert one.type == wanted.type
        assert differences(one, wanted) == []
        kind = wanted.WhichOneof("stats")
        for message in (getattr(one, kind), getattr(wanted, kind)):
            message.ClearField("common_stats")
        # Histograms have no more buckets than TFDV's, either.
        for histogram, other in zip(
            getattr(one, kind).histograms if kind == "num_stats" else (),
            getattr(wanted, kind).histograms if kind == "num_stats" else (),
            strict=False,
        ):
            assert len(histogram.buckets) == len(other.buckets)
    assert found == {}


@pytest.mark.parametrize("name", published.INFERRED)
def test_inferred_schema(name: str) -> None:
    statistics, arguments, schema = published.INFERRED[name]
    given = published.parse(published.dataset(statistics), Statistics())
    assert infer_schema(given, **arguments) == published.parse(schema, Schema())


@pytest.mark.parametrize("name", published.ANOMALIES)
def test_anomalies(name: str) -> None:
    schema, statistics, others, wanted = published.ANOMALIES[name]
    parsed = published.parse(schema, Schema())
    anomalies = validate_statistics(
        published.parse(published.dataset(statistics), Statistics()),
        parsed,
        **{
            key: published.parse(published.dataset(text), Statistics())
            for key, text in others.items()
        },
    )
    assert anomalies.baseline == parsed
    kinds = anomalies_pb2.AnomalyInfo.Type
    found = {
        name: [
            (kinds.Name(one.type), one.short_description, one.description) for one in info.reason
        ]
        for name, info in anomalies.anomaly_info.items()
    }
    assert found == wanted
    for feature, info in anomalies.anomaly_info.items():
        reasons = wanted[feature]
        assert list(info.path.step) == [feature]
        assert info.description == " ".join(long for _, _, long in reasons)
        several = len(reasons) > 1
        assert info.short_description == ("Multiple errors" if several else reasons[0][1])
        assert info.severity == info.ERROR


def test_drift_measurements() -> None:
    schema, statistics, others, _ = published.ANOMALIES["drift"]
    anomalies = validate_statistics(
        published.parse(published.dataset(statistics), Statistics()),
        published.parse(schema, Schema()),
        previous_statistics=published.parse(
            published.dataset(others["previous_statistics"]), Statistics()
        ),
    )
    (info,) = anomalies.drift_skew_info
    (measured,) = info.drift_measurements
    assert (list(info.path.step), measured.type) == (["enum"], measured.L_INFTY)
    assert (measured.value, measured.threshold) == (0.25, 0.01)
    assert list(info.skew_measurements) == []


@pytest.mark.parametrize(("counts", "control", "wanted"), published.INFINITY_NORMS)
def test_infinity_norm(counts: Any, control: Any, wanted: float) -> None:
    assert infinity_norm(counts, control)[1] == pytest.approx(wanted)


@pytest.mark.parametrize(("histogram", "control", "wanted"), published.DIVERGENCES)
def test_divergence(histogram: str, control: str, wanted: float) -> None:
    views = [
        FeatureView(
            published.parse(
                f"type: FLOAT num_stats {{ histograms {{ {text} }} }}",
                statistics_pb2.FeatureNameStatistics(),
            ),
            1,
        )
        for text in (histogram, control)
    ]
    assert jensen_shannon(views[0], views[1]) == pytest.approx(wanted, abs=1e-9)
    assert jensen_shannon(views[1], views[0]) == pytest.approx(wanted, abs=1e-9)
