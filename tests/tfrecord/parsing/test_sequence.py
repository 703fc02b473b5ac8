"""parse_sequence_example; test_golden_tf.py has TensorFlow's results."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from ffrfs.errors import FormatError
from ffrfs.tfrecord import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
    from_dict,
    parse_sequence_example,
)

CONTEXT = {"id": FixedLenFeature([], "int64"), "tags": VarLenFeature("string")}
LISTS = {
    "frames": FixedLenSequenceFeature([2], "float32", allow_missing=True),
    "names": FixedLenSequenceFeature([], "string", allow_missing=True),
    "words": VarLenFeature("string"),
    "rows": RaggedFeature("int64", "words/n", [RaggedFeature.UniformRowLength(1)]),
}
BATCH = [
    from_dict({
        "context": {"id": 7, "tags": ["a", "b"]},
        "feature_lists": {
            "frames": [[0.5, 1.5], [2.5, 3.5]],
            "names": ["x"],
            "words": [["a"], [], ["b", "c"]],
            "words/n": [[1], [2, 3]],
        },
    }).SerializeToString(),
    from_dict({"context": {"id": 8}, "feature_lists": {"words": [["d"]]}}).SerializeToString(),
]  # fmt: skip


def test_a_batch() -> None:
    context, lists, lengths = parse_sequence_example(BATCH, CONTEXT, LISTS)
    assert context["id"].tolist() == [7, 8]
    assert context["tags"].to_dense().tolist() == [[b"a", b"b"], [b"", b""]]
    assert lists["frames"].tolist() == [[[0.5, 1.5], [2.5, 3.5]], [[0, 0], [0, 0]]]
    assert lists["names"].tolist() == [[b"x"], [b""]]
    assert lists["words"].indices.tolist() == [[0, 0, 0], [0, 2, 0], [0, 2, 1], [1, 0, 0]]
    assert lists["words"].dense_shape.tolist() == [2, 3, 2]
    assert lists["rows"].to_list() == [[[[1]], [[2], [3]]], []]
    assert {name: of.tolist() for name, of in lengths.items()} == {
        "frames": [2, 0],
        "names": [1, 0],
    }
    assert pickle.loads(pickle.dumps(lists["rows"])).to_list() == lists["rows"].to_list()
    assert pickle.loads(pickle.dumps(LISTS)) == LISTS


def test_an_empty_batch() -> None:
    context, lists, lengths = parse_sequence_example([], CONTEXT, LISTS)
    assert (context["id"].shape, context["tags"].dense_shape.tolist()) == ((0,), [0, 0])
    assert (lists["frames"].shape, lists["names"].shape) == ((0, 0, 2), (0, 0))
    assert (lists["words"].dense_shape.tolist(), len(lists["rows"])) == ([0, 0, 0], 0)
    assert lengths["frames"].tolist() == []


def test_a_record_alone() -> None:
    for alone in (BATCH[0], bytearray(BATCH[0])):
        context, lists, lengths = parse_sequence_example(alone, CONTEXT, LISTS)
        assert context["id"].item() == 7
        assert lists["frames"].shape == (2, 2)
        assert lists["words"].dense_shape.tolist() == [3, 2]
        assert lists["rows"].to_list() == [[[1]], [[2], [3]]]
        assert {name: of.item() for name, of in lengths.items()} == {"frames": 2, "names": 1}
    # A batch may hold any bytes-like objects.
    views = [np.frombuffer(data, np.uint8) for data in BATCH]
    assert parse_sequence_example(views, CONTEXT)[0]["id"].tolist() == [7, 8]


def test_errors_name_the_record() -> None:
    with pytest.raises(FormatError, match=r'^example 2: context feature "id": is not there'):
        parse_sequence_example([*BATCH, b""], CONTEXT)
    with pytest.raises(FormatError, match=r'^third: context feature "id": is not there'):
        parse_sequence_example([*BATCH, b""], CONTEXT, None, ["first", "second", b"third"])
    required = {"names": FixedLenSequenceFeature([], "string")}
    with pytest.raises(FormatError, match=r'^example 1: feature list "names": is not there'):
        parse_sequence_example(BATCH, None, required)
    divided = {"x": RaggedFeature("int64", "words/n", [RaggedFeature.UniformRowLength(2)])}
    with pytest.raises(FormatError, match=r'^example 0: feature "x": 1 values do not divide'):
        parse_sequence_example(BATCH, None, divided)
    for name, place in ((None, ""), ("x", "x, ")):
        with pytest.raises(FormatError, match=rf'^{place}step 0: feature "x": 1 values do not div'):
            parse_sequence_example(BATCH[0], None, divided, name)
    with pytest.raises(ValueError, match="one for each of 2 records"):
        parse_sequence_example(BATCH, CONTEXT, None, "name")


def test_invalid_features_are_refused() -> None:
    sparse = {"x": SparseFeature("i", "v", "int64", 4)}
    for features in ((sparse, None), (None, sparse), (LISTS, None), (None, CONTEXT)):
        with pytest.raises(ValueError, match="cannot be read here"):
            parse_sequence_example(BATCH, *features)
    with pytest.raises(ValueError, match="name a feature"):
        parse_sequence_example(BATCH)
    with pytest.raises(TypeError, match="bytes, not str"):
        parse_sequence_example("text", CONTEXT)
