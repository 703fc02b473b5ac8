"""RaggedFeature, SparseFeature and their values; test_golden_tf.py has TensorFlow's results."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs.errors import FormatError
from ffrfs.tfrecord import (
    FixedLenFeature,
    RaggedFeature,
    RaggedValue,
    SparseFeature,
    SparseValue,
    VarLenFeature,
    from_dict,
    parse_example,
    parse_sequence_example,
    parse_single_example,
)


def record(**values: object) -> bytes:
    return from_dict({key: np.array(v, np.int64) for key, v in values.items()}).SerializeToString()


NESTED = RaggedFeature(
    "int64", "v", [RaggedFeature.RowLengths("rows"), RaggedFeature.RowSplits("splits")]
)
BATCH = [
    record(v=[1, 2, 3], splits=[0, 1, 1, 3], rows=[2, 0, 1]),
    b"",
    record(v=[4], splits=[0, 1], rows=[1]),
]
LISTS = [[[[1], []], [], [[2, 3]]], [], [[[4]]]]


def test_a_ragged_value() -> None:
    value = parse_example(BATCH, {"x": NESTED})["x"]
    assert isinstance(value, RaggedValue)
    assert value.to_list() == LISTS
    assert (value.ragged_rank, value.nrows(), len(value)) == (3, 3, 3)
    assert value.row_splits.tolist() == [0, 3, 3, 4]
    assert value.row_lengths().tolist() == [3, 0, 1]
    assert value.value_rowids().tolist() == [0, 0, 0, 2]
    nested = [splits.tolist() for splits in value.nested_row_splits]
    assert nested == [[0, 3, 3, 4], [0, 2, 2, 3, 4], [0, 1, 1, 3, 4]]
    assert value.flat_values.tolist() == [1, 2, 3, 4]
    assert value.values.values.values is value.flat_values
    assert (value.dtype, value.row_splits.dtype) == (np.int64, np.int32)
    assert [row.to_list() for row in value] == LISTS
    assert value[-1][0].to_list() == [[4]]
    assert value[0][2][0].tolist() == [2, 3]
    for row in (3, -4):
        with pytest.raises(IndexError, match=f"row {row} does not exist"):
            value[row]
    assert repr(value) == f"RaggedValue({LISTS})"
    alone = [parse_single_example(data, {"x": NESTED})["x"].to_list() for data in BATCH]
    assert alone == LISTS


def test_one_key_for_several_features() -> None:
    features = {"v": VarLenFeature("int64"), "x": RaggedFeature("int64", "v"), "n": NESTED}
    found = parse_single_example(BATCH[0], features)
    assert found["x"].tolist() == found["v"].values.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match='"v": it is asked for in two ways'):
        parse_single_example(BATCH[0], {**features, "v": FixedLenFeature([3], "int64")})


def test_kinds_of_partitions_are_kept_apart() -> None:
    data = record(v=[1, 2], p=[0, 2])
    for kind, wanted in [
        (RaggedFeature.RowSplits, [[1, 2]]),
        (RaggedFeature.RowLengths, [[], [1, 2]]),
        (RaggedFeature.RowLimits, [[], [1, 2]]),
        (RaggedFeature.RowStarts, [[1, 2], []]),
        (RaggedFeature.ValueRowIds, [[1], [], [2]]),
    ]:
        feature = RaggedFeature("int64", "v", [kind("p")])
        assert parse_single_example(data, {"x": feature})["x"].to_list() == wanted
        assert kind("p") == kind("p") != ("p",)


BIG = [1 << 62, -(1 << 63), (1 << 63) - 1]
UNSOUND = {
    "RowSplits": [[1, 2], [0, 1], [0, 3], [0, 2, 1, 2], *([0, big, 2] for big in BIG)],
    "RowLengths": [[], [1], [3], [3, -1], *([big, big] for big in BIG)],
    "RowStarts": [[1], [0, 2, 1], [-1], [0, 3], *([0, big] for big in BIG)],
    "RowLimits": [[1], [3], [2, 1, 2], [-1, 2], *([big, 2] for big in BIG)],
    "ValueRowIds": [[0], [0, 0, 0], [1, 0], [-1, 0], *([0, big] for big in BIG)],
}


@pytest.mark.parametrize("kind", UNSOUND)
def test_partitions_that_do_not_fit(kind: str) -> None:
    feature = RaggedFeature("int64", "v", [getattr(RaggedFeature, kind)("p")])
    for partition in UNSOUND[kind]:
        data = record(v=[1, 2], p=partition)
        with pytest.raises(FormatError, match=r'^feature "x": 2 values do not fit'):
            parse_single_example(data, {"x": feature})
        with pytest.raises(FormatError, match=r'^example 1, feature "x": 2 values do not fit'):
            parse_example([b"", data], {"x": feature})
        with pytest.raises(FormatError, match=r'^named: feature "x"'):
            parse_example([data], {"x": feature}, ["named"])


def test_rows_have_a_limit() -> None:
    feature = RaggedFeature("int64", "v", [RaggedFeature.ValueRowIds("p")])
    data = record(v=[1], p=[(1 << 26) - 1])
    with pytest.raises(FormatError, match="the limit is 67108864"):
        parse_example([data] * 2, {"x": feature})


def test_a_uniform_length_that_does_not_divide() -> None:
    feature = RaggedFeature("int64", "v", [RaggedFeature.UniformRowLength(2)])
    found = parse_single_example(record(v=[1, 2, 3, 4]), {"x": feature})["x"]
    assert found.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(FormatError, match="3 values do not divide into rows of 2"):
        parse_single_example(record(v=[1, 2, 3]), {"x": feature})


@pytest.mark.parametrize(
    ("feature", "reason"),
    [
        (RaggedFeature("int64", row_splits_dtype="int16"), "row_splits_dtype is 'int16'"),
        (RaggedFeature("int64", partitions=[RaggedFeature.UniformRowLength(0)]), "rows of 0"),
        (SparseFeature(["a", "b"], "v", "int64", 4), "2 index keys .* 1 sizes"),
        (SparseFeature([], "v", "int64", []), r"index_key is \(\)"),
        (SparseFeature("a", "", "int64", 4), "value_key ''; both must name features"),
        (SparseFeature("a", "a", "float32", 4), "asked for in two ways"),
    ],
    ids=repr,
)
def test_invalid_features_are_refused(feature: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_single_example(b"", {"x": feature})


def test_invalid_partitions_are_refused() -> None:
    with pytest.raises(ValueError, match="value_key"):
        RaggedFeature("int64", "")
    with pytest.raises(TypeError, match="partitions are"):
        RaggedFeature("int64", "v", ["splits"])


def test_partitions_with_another_number_of_steps() -> None:
    feature = RaggedFeature("int64", "v", [RaggedFeature.RowLengths("p")])
    data = from_dict({"context": {}, "feature_lists": {"v": [[1], [2]], "p": [[1]]}})
    with pytest.raises(FormatError, match=r'^example 1: feature list "x": 2 steps, but 1 in "p"'):
        parse_sequence_example([b"", data.SerializeToString()], None, {"x": feature})


def test_values_without_an_index() -> None:
    feature = {"x": SparseFeature("i", "v", "int64", 4)}
    data = record(i=[1], v=[1, 2])
    with pytest.raises(FormatError, match=r'^feature "x": 1 indices in "i", 2 values in "v"'):
        parse_single_example(data, feature)
    # The totals are equal, but not the numbers of each example.
    with pytest.raises(FormatError, match=r"^example 0, .*1 indices"):
        parse_example([data, record(i=[1, 2], v=[1])], feature)


def test_dense() -> None:
    indices = np.array([[0, 1], [1, 0]])
    sparse = SparseValue(indices, np.array([b"a", b"b"], object), np.array([2, 2]))
    assert sparse.to_dense().tolist() == [[b"", b"a"], [b"b", b""]]
    assert sparse.to_dense("d").tolist() == [[b"d", b"a"], [b"b", b"d"]]
    outside = parse_single_example(record(i=[4], v=[7]), {"x": SparseFeature("i", "v", "int64", 4)})
    with pytest.raises(ValueError, match=re.escape("outside of the dense shape (4,)")):
        outside["x"].to_dense()
    with pytest.raises(ValueError, match="there twice"):
        SparseValue(np.array([[1], [1]]), np.array([1, 2]), np.array([4])).to_dense()


def cut(values: list[Any], lengths: list[int]) -> list[list[Any]]:
    ends = np.cumsum([0, *lengths]).tolist()
    return [values[ends[i] : ends[i + 1]] for i in range(len(lengths))]


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=5))
def test_any_lengths(batch: list[list[int]]) -> None:
    data = [record(v=range(sum(lengths)), p=lengths) for lengths in batch]
    feature = RaggedFeature("int64", "v", [RaggedFeature.RowLengths("p")], "int64")
    found = parse_example(data, {"x": feature})["x"]
    assert found.to_list() == [cut(list(range(sum(lengths))), lengths) for lengths in batch]
    alone = [parse_single_example(one, {"x": feature})["x"].to_list() for one in data]
    assert alone == found.to_list()
