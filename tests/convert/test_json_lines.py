"""JSON lines: every Example comes back; an error for any other line names its file and number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ffrfs.convert.convert import ConvertSummary, convert
from ffrfs.convert.example_json import from_json, parse_record, to_json
from ffrfs.errors import PackError
from tests.convert.messages import check_bad_line, records_of, serialized
from tests.ffrecord_file import write_records
from tests.tfrecord_file import write_tfrecord

FLOAT32_MAX = np.finfo(np.float32).max
FLOATS = st.floats(width=32, allow_nan=False)
VALUES = st.one_of(
    st.none(),
    st.lists(st.binary(max_size=20), max_size=3),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5).map(lambda v: np.array(v, np.int64)),
    st.lists(FLOATS, max_size=5).map(lambda values: np.array(values, np.float32)),
)
FEATURES = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), VALUES, max_size=4)
LISTS = st.dictionaries(st.text("abc", max_size=8), st.lists(VALUES, max_size=3), max_size=3)


@settings(max_examples=100)
@example(
    features=[{"x": np.array([FLOAT32_MAX, -FLOAT32_MAX, 1e-45], np.float32)}], context={}, lists={}
)
@given(features=st.lists(FEATURES, max_size=3), context=FEATURES, lists=LISTS)
def test_any_record(
    tmp_path_factory: pytest.TempPathFactory,
    features: list[dict[str, object]],
    context: dict[str, object],
    lists: dict[str, object],
) -> None:
    place = tmp_path_factory.mktemp("any")
    records = [serialized({"": 1, **each}) for each in features]
    records.append(serialized({"context": {"": 1, **context}, "feature_lists": {"a": [], **lists}}))
    file = write_tfrecord(place / "x.tfrecord", records)
    assert convert(file, place / "y.jsonl") == ConvertSummary(len(records), 0)
    assert len((place / "y.jsonl").read_bytes().splitlines()) == len(records)
    convert(place / "y.jsonl", place / "z.tfrecord")
    assert records_of(place / "z.tfrecord") == records


def test_the_form_of_the_lines(tmp_path: Path) -> None:
    file = tmp_path / "y.jsonl"
    image = b"\xff\xd8\xff\xe0"
    records = [serialized({"label": 7, "image": image, "x": [0.1, float("-inf"), float("nan")]})]
    convert(write_records(tmp_path / "x.ffr", records), file)
    assert file.read_text() == (
        '{"features": {"image": {"bytes_list": ["/9j/4A=="]}, "label": {"int64_list": [7]}, '
        '"x": {"float_list": [0.1, "-Infinity", "NaN"]}}}\n'
    )
    for target in ("z.ffr", "z.tfrecord.gz"):
        assert convert(file, tmp_path / target).record_count == 1


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b"\n  \n")
    assert convert(tmp_path / "x.jsonl", tmp_path / "y.tfrecord").record_count == 0


@pytest.mark.parametrize(
    "record",
    [b"no example at all\n", b"\x0a\x00\x1a\x01x", b"\xff", b"\x0a\x04\x0a\x02\x0a\x00\x18\x01"],
)
def test_a_record_that_is_not_an_example(tmp_path: Path, record: bytes) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", [serialized({"a": 1}), record])
    with pytest.raises(PackError, match=r"x\.tfrecord: record 1: not an Example"):
        convert(file, tmp_path / "y.jsonl")
    assert not (tmp_path / "y.jsonl").exists()


def test_empty_feature_lists_stay_a_sequence_example() -> None:
    record = b"\x12\x00"
    message = parse_record(record)
    assert message is not None
    assert to_json(message) == {"context": {}, "feature_lists": {}}
    again = from_json(to_json(message))
    assert type(again).__name__ == "SequenceExample"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "line 2: "),
        (b"[]", "a record is not an object"),
        (b'{"features": []}', "features is not an object"),
        (b'{"features": {"a": 1}}', 'feature "a" is not an object'),
        (b'{"features": {"a": {"int64_list": 1}}}', "not a list"),
        (b'{"features": {"a": {"int64_list": [1.5]}}}', "1.5 is not an integer"),
        (b'{"features": {"a": {"int64_list": [true]}}}', "True is not an integer"),
        (b'{"features": {"a": {"int64_list": [9223372036854775808]}}}', "int64"),
        (b'{"features": {"a": {"int64_list": [' + b"9" * 5000 + b"]}}}", "line 2: "),
        (b'{"features": {"a": {"float_list": [1e39]}}}', "float32"),
        (b'{"features": {"a": {"float_list": [1e999]}}}', "float32"),
        (b'{"features": {"a": {"float_list": ["x"]}}}', "'x' is not a number"),
        (b'{"features": {"a": {"float_list": [NaN]}}}', "NaN is not a number in JSON"),
        (b'{"features": {"a": {"float_list": [' + b"9" * 4000 + b"]}}}", "float32"),
        (b'{"features": {"a": {"bytes_list": ["&"]}}}', 'feature "a": '),
        (b'{"features": {"a": {"bytes_list": ["\\u00e9"]}}}', 'feature "a": '),
        (b'{"features": {"a": {"bytes_list": [1]}}}', "base64 in a string"),
        (b'{"features": {"a": {"list": []}}}', '"list" is not bytes_list'),
        (b'{"features": {"a": {"int64_list": [], "float_list": []}}}', "more than one list"),
        (b'{"features": {"a": {}, "a": {}}}', "a name comes twice"),
        (b'{"features": {"\\ud800": {}}}', "cannot be written as UTF-8"),
        (b'{"context": {}, "feature_lists": {"a": {}}}', "not a list"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"features": {"\xff": {}}}', "not UTF-8"),
    ],
)
def test_a_bad_line(tmp_path: Path, line: bytes, reason: str) -> None:
    check_bad_line(tmp_path, line, reason)
