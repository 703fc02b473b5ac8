"""Flat JSON lines, as other programs write them, become Examples, and Examples become lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.json
import pytest

from ffrfs.convert.convert import ConvertSummary, convert
from ffrfs.errors import FormatError, OptionError, PackError
from ffrfs.tfrecord import Example
from tests.convert.messages import check_bad_line, examples_of, records_of, serialized
from tests.tfrecord_file import write_tfrecord

LINES: list[dict[str, Any]] = [
    {"text": "café", "label": 3, "score": 1, "box": [0.5, 1], "tags": ["a", "b"], "none": []},
    {"text": "", "label": -1, "score": 0.1, "box": [], "tags": [], "ok": True, "gap": None},
]


def write_lines(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_lines_become_examples(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "x.jsonl", LINES)
    assert convert(file, tmp_path / "x.tfrecord") == ConvertSummary(2, 0)
    first, second = map(Example.FromString, records_of(tmp_path / "x.tfrecord"))
    assert first.features.feature["text"].bytes_list.value == ["café".encode()]
    assert first.features.feature["label"].int64_list.value == [3]
    assert first.features.feature["score"].float_list.value == [1.0]  # float, as in the second line
    assert first.features.feature["box"].float_list.value == [0.5, 1]
    assert first.features.feature["tags"].bytes_list.value == [b"a", b"b"]
    assert first.features.feature["none"].WhichOneof("kind") is None
    assert second.features.feature["box"].WhichOneof("kind") == "float_list"
    assert second.features.feature["ok"].int64_list.value == [1]
    assert "gap" not in second.features.feature


def test_flat_lines_survive_a_round_trip(tmp_path: Path) -> None:
    lines = [
        {"box": [0.5, 1.5], "label": 3, "text": "é"},
        {"box": [], "label": 1 << 60, "score": 0.1, "text": ""},
    ]
    convert(write_lines(tmp_path / "x.jsonl", lines), tmp_path / "x.tfrecord")
    convert(tmp_path / "x.tfrecord", tmp_path / "y.jsonl", flat=True)
    assert [*map(json.loads, (tmp_path / "y.jsonl").read_text().splitlines())] == lines
    table = pyarrow.json.read_json(tmp_path / "y.jsonl").to_pylist()
    assert table == [{"score": None, **lines[0]}, lines[1]]


def test_an_example_without_features_survives_a_round_trip(tmp_path: Path) -> None:
    records = [serialized(each) for each in ({"a": 1}, {})]
    convert(write_tfrecord(tmp_path / "x.tfrecord", records), tmp_path / "y.jsonl", flat=True)
    assert (tmp_path / "y.jsonl").read_text() == '{"a": 1}\n{}\n'
    convert(tmp_path / "y.jsonl", tmp_path / "z.tfrecord")
    assert examples_of(tmp_path / "z.tfrecord") == [{"a": [1]}, {}]


def test_both_forms_in_one_file(tmp_path: Path) -> None:
    form = {"features": {"a": {"int64_list": [1]}}}
    file = write_lines(tmp_path / "x.jsonl", [form, {"a": 2}, {"features": 1, "a": 3}])
    convert(file, tmp_path / "x.tfrecord")
    assert examples_of(tmp_path / "x.tfrecord") == [
        {"a": [1]},
        {"a": [2]},
        {"a": [3], "features": [1]},
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"a": {"b": 1}}, '"a" is no number, text, or list of them'),
        ({"a": [1, None]}, '"a" is no number, text, or list of them'),
        ({"a": [[1]]}, '"a" is no number, text, or list of them'),
        ({"a": "x"}, '"a" is text in some lines and a number in others'),
        ({"a": [1, "x"]}, '"a" is text in some lines and a number in others'),
        ({"a": 1 << 63}, '"a": an integer does not fit into an int64'),
        ({"b": 1e39}, '"b": a number does not fit into a float32'),
        ({"\ud800": 1}, "cannot be written as UTF-8"),
        ({"b": "\ud800"}, '"b": '),
        ({"b": float("-inf")}, "-Infinity is not a number in JSON"),
    ],
)
def test_a_bad_line(tmp_path: Path, line: dict[str, Any], reason: str) -> None:
    check_bad_line(tmp_path, json.dumps(line).encode(), reason)


@pytest.mark.parametrize("bad", [{"x": "text", "y": {"k": 2}}, {"x": ["text", 1]}])
def test_a_skipped_line_has_no_effect_on_the_others(tmp_path: Path, bad: Any) -> None:
    """Neither its types stay, nor an empty feature for a name that no other line has."""
    file = write_lines(tmp_path / "x.jsonl", [bad, {"x": 1}, bad])
    done = convert(file, tmp_path / "y.tfrecord", on_error="skip")
    assert done == ConvertSummary(1, 2)
    assert examples_of(tmp_path / "y.tfrecord") == [{"x": [1]}]


def test_names_have_a_limit(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "x.jsonl", [{f"a{i}": 1 for i in range(10_001)}, {"a": 1}])
    with pytest.raises(FormatError, match="line 1: more than 10,000 different names"):
        convert(file, tmp_path / "y.tfrecord")
    assert convert(file, tmp_path / "y.tfrecord", on_error="skip") == ConvertSummary(1, 1)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"a": b"\xff"}, 'record 0: feature "a" is not text in UTF-8'),
        ({"a": float("nan")}, 'record 0: feature "a" is nan, which is not a number in JSON'),
        ({"context": {}, "feature_lists": {"a": [[1]]}}, 'feature "a" is no value and no list'),
        ({"features": 1}, 'record 0: a flat line of "features" alone would be taken'),
        ({"feature_lists": 1, "context": 2}, 'of "context" and "feature_lists" alone would be'),
    ],
)
def test_examples_that_flat_lines_cannot_hold(
    tmp_path: Path, values: dict[str, Any], reason: str
) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", [serialized(values)])
    with pytest.raises(PackError) as caught:
        convert(file, tmp_path / "y.jsonl", flat=True)
    assert reason in str(caught.value)
    assert str(caught.value).endswith("; leave out --flat")
    assert not (tmp_path / "y.jsonl").exists()


def test_flat_is_only_for_json(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="flat=True does not fit to='parquet'"):
        convert(write_tfrecord(tmp_path / "x.tfrecord", []), tmp_path / "y.parquet", flat=True)
