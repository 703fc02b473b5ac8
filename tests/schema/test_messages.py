"""Any bytes in a file of a message give a message or a FormatError."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ffrfs.errors import FfrfsError, FormatError, PackError
from ffrfs.schema import (
    Anomalies,
    Schema,
    Statistics,
    generate_statistics,
    infer_schema,
    load,
    store,
    tables,
    validate_statistics,
)
from ffrfs.schema.messages import load_any
from tests.schema.records import example, sequence
from tests.tfrecord_file import write_tfrecord


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Statistics, a schema with comparators in each feature, and anomalies."""
    records = [
        example(a=["x", b"\xff"], f=[1.0, math.nan, math.inf], n=[i % 2], m=["1"], w=[f"w{i}"])
        for i in range(5)
    ]
    records.append(sequence({"a": None}, {"s": [[1], [2, 3]]}))
    file = write_tfrecord(tmp_path_factory.mktemp("messages") / "x.tfrecord", records)
    statistics = generate_statistics(file).statistics
    schema = infer_schema(statistics)
    for feature in schema.feature:
        feature.drift_comparator.infinity_norm.threshold = 0.1
        feature.drift_comparator.jensen_shannon_divergence.threshold = 0.1
        feature.skew_comparator.normalized_abs_difference.threshold = 0.1
    schema.feature.add(name="gone", type=2).presence.min_count = 1
    anomalies = validate_statistics(statistics, schema, None, statistics, statistics)
    assert anomalies.anomaly_info and anomalies.drift_skew_info
    return [statistics, schema, anomalies]


CHANGES = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=6)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(changes=CHANGES, share=st.floats(0.5, 1), number=st.integers(0, 2))
def test_damaged_messages(
    messages: list[Any], tmp_path: Path, changes: list[Any], share: float, number: int
) -> None:
    data = bytearray(messages[number].SerializeToString())
    for place, byte in changes:
        data[int(place * len(data))] = byte
    file = tmp_path / "m.pb"
    file.write_bytes(data if share > 0.9 else data[: int(share * len(data))])
    statistics, schema, _ = messages
    with contextlib.suppress(FfrfsError):
        found = load(file, (Statistics, Schema, Anomalies)[number])
        if number == 0:
            infer_schema(found)
            validate_statistics(found, schema, None, statistics, statistics)
            validate_statistics(statistics, schema, None, found, found)
            tables.number_rows(found)
            tables.string_rows(found)
        elif number == 1:
            validate_statistics(statistics, found, "SERVING", statistics, statistics)
            tables.schema_rows(found)
            tables.domain_rows(found)
        else:
            tables.anomaly_rows(found)
            tables.distance_rows(found)


@pytest.mark.parametrize("end", ["pb", "pbtxt", "txt", "json"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_every_file_format(messages: list[Any], tmp_path: Path, end: str, number: int) -> None:
    file = tmp_path / f"m.{end}"
    store(file, messages[number])
    found = load_any(file)
    assert type(found) is type(messages[number])
    # Bytes are compared, because NaN does not equal itself.
    assert found.SerializeToString(deterministic=True) == messages[number].SerializeToString(
        deterministic=True
    )


def test_one_message_is_not_taken_for_another(messages: list[Any], tmp_path: Path) -> None:
    file = tmp_path / "m.pb"
    for stored in messages:
        store(file, stored, force=True)
        assert type(load(file, type(stored))) is type(stored)
        for other in {Anomalies, Schema, Statistics} - {type(stored)}:
            with pytest.raises(FormatError, match=f"not a {other.DESCRIPTOR.name}"):
                load(file, other)


@pytest.mark.promise("S70")
def test_a_file_is_replaced_only_with_force(messages: list[Any], tmp_path: Path) -> None:
    file = tmp_path / "m.pbtxt"
    file.write_text("# written by hand")
    with pytest.raises(PackError, match=r"exists \(a text file\)"):
        store(file, messages[0])
    assert file.read_text() == "# written by hand"
    store(file, messages[0], force=True)
    load_any(file)


def test_text_that_is_nested_too_deep(tmp_path: Path) -> None:
    file = tmp_path / "x.pbtxt"
    file.write_text("feature { struct_domain { " * 2000 + "} }" * 2000)
    with pytest.raises(FormatError, match=f"^{file}: not a Schema in this form: maximum recursion"):
        load(file, Schema)
