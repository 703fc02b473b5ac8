"""infer_schema reports the features of a file's Examples as they are."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs.errors import FormatError
from ffrfs.tfrecord import Feature, FeatureList, SequenceExample, from_dict
from ffrfs.tfrecord.examples import features_found
from ffrfs.tfrecord.examples.features_found import FeatureSchema, Range, Schema, infer_schema
from tests import tfrecord_example as packed

FLOATS = st.floats(width=32, allow_nan=False)
VALUES = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1)).map(lambda ints: np.array(ints, np.int64)),
    st.lists(FLOATS).map(lambda floats: np.array(floats, np.float32)),
    st.lists(st.binary(max_size=9)),
)


def serialized(*examples: dict[str, Any]) -> list[bytes]:
    return [from_dict(example).SerializeToString() for example in examples]


def schema_of(records: Iterable[bytes]) -> Schema:
    return infer_schema(records, "x.tfrecord")


def features(schema: Schema) -> dict[tuple[str, str], FeatureSchema]:
    return {(feature.name, feature.kind): feature for feature in schema.features}


def kind_of(values: Any) -> str:
    if isinstance(values, list):
        return "bytes"
    return "int64" if values.dtype == np.int64 else "float"


@given(examples=st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, min_size=1), max_size=8))
def test_any_examples(examples: list[dict[str, Any]]) -> None:
    schema = schema_of(serialized(*examples))
    assert (schema.example_count, schema.other_count) == (len(examples), 0)
    seen: dict[tuple[str, str], list[Any]] = {}
    for example in examples:
        for name, values in example.items():
            seen.setdefault((name, kind_of(values)), []).append(values)
    assert features(schema).keys() == seen.keys()
    assert [(feature.name, feature.kind) for feature in schema.features] == sorted(seen)
    for key, lists in seen.items():
        found = features(schema)[key]
        counts = [len(values) for values in lists]
        flat = [len(v) if key[1] == "bytes" else v for values in lists for v in values]
        assert found == FeatureSchema(
            name=key[0],
            kind=found.kind,
            is_sequence=False,
            present_count=len(lists),
            steps=None,
            values=Range(min(counts), max(counts)),
            domain=Range(min(flat), max(flat)) if flat else None,
            nan_count=0,
        )


def test_nan_and_infinities() -> None:
    first = {"x": [1.0, math.nan, -math.inf], "none": [math.nan], "both": [math.inf, -math.inf]}
    found = features(schema_of(serialized(first, {"x": [math.nan, 2.0]})))
    assert found["x", "float"].domain == Range(-math.inf, 2.0)
    assert found["x", "float"].nan_count == 2
    assert found["none", "float"].domain is None
    assert found["both", "float"].domain == Range(-math.inf, math.inf)
    assert found["both", "float"].nan_count == 0


def test_a_feature_without_a_list() -> None:
    found = features(schema_of(serialized({"x": None}, {"x": [1]})))
    assert found["x", "none"].present_count == found["x", "int64"].present_count == 1
    assert found["x", "none"].domain is None


def test_sequence_examples() -> None:
    records = serialized(
        {"context": {"id": 7}, "feature_lists": {"frames": [b"ab", b"c"], "gaps": []}},
        {"context": {}, "feature_lists": {"frames": [], "gaps": [[], [5, 6]]}},
        {"id": 9},
    )
    mixed = SequenceExample()
    steps = FeatureList(feature=[Feature(), *from_dict({"a": 1.5}).features.feature.values()])
    mixed.feature_lists.feature_list["frames"].CopyFrom(steps)
    schema = schema_of([*records, mixed.SerializeToString()])
    assert (schema.example_count, schema.sequence_example_count, schema.record_count) == (1, 3, 4)
    found = features(schema)
    assert found["id", "int64"].present_count == 2
    assert not found["id", "int64"].is_sequence
    frames = found["frames", "bytes"]
    assert frames.is_sequence
    assert (frames.present_count, frames.steps) == (2, Range(0, 2))
    assert (frames.values, frames.domain) == (Range(1, 1), Range(1, 2))
    assert (found["frames", "float"].steps, found["frames", "none"].steps) == (
        Range(0, 2),
        Range(0, 2),
    )
    assert found["frames", "float"].values == Range(1, 1)
    gaps = found["gaps", "int64"]
    assert (gaps.present_count, gaps.steps, gaps.domain) == (2, Range(0, 2), Range(5, 6))
    assert [feature.is_sequence for feature in schema.features] == sorted(
        feature.is_sequence for feature in schema.features
    )


def test_a_list_that_never_has_a_step() -> None:
    (found,) = schema_of(serialized({"context": {}, "feature_lists": {"x": []}})).features
    assert (found.kind, found.present_count) == ("none", 1)
    assert (found.steps, found.values) == (Range(0, 0), None)


@pytest.mark.parametrize("record", [b"", b"\xff", b"\x0a\x05abc", b"no Example, but a line\n"])
def test_records_that_are_no_examples(record: bytes) -> None:
    schema = schema_of([record, *serialized({"x": 1})])
    assert (schema.example_count, schema.other_count) == (1, 1)
    assert [feature.name for feature in schema.features] == ["x"]


@pytest.mark.parametrize("field", ["context", "feature_lists"])
def test_hostile_names_do_not_fill_the_memory(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features_found, "FEATURE_LIMIT", 1000)

    def record(number: int) -> bytes:
        entry = packed.field(1, b"%06d" % number) + packed.field(2, b"")  # no list, or no step
        return packed.field(1 if field == "context" else 2, packed.field(1, entry))

    records = [record(number) for number in range(1001)]
    assert len(schema_of(records[:-1]).features) == 1000
    with pytest.raises(FormatError, match=r"^x\.tfrecord: .* more than 1000 different features"):
        schema_of(records)


@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_many_values_take_little_memory(kind: type) -> None:
    count = 300_000
    values = np.arange(count).astype(kind)
    values[7] = 2 * count
    records = serialized({"x": values})
    tracemalloc.start()
    try:
        (found,) = schema_of(records).features
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (found.values, found.domain) == (Range(count, count), Range(0, 2 * count))
    assert peak < 6 << 20  # a list of all values has 10 MB
