"""The spellings of a dtype."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from ffrfs import tfrecord
from ffrfs.tfrecord import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    VarLenFeature,
    from_dict,
    parse_example,
    parse_single_example,
)
from ffrfs.tfrecord.parsing.dtypes import kind_of, numpy_dtype

RECORD = from_dict({"i": [1, 2], "f": 0.5, "b": [b"a\0"]}).SerializeToString()


class DType:
    """Looks like tf.int64 from outside: it has a name, and a class of a TensorFlow module."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"tf.{self.name}"


DType.__module__ = "tensorflow.python.framework.dtypes"


@pytest.mark.parametrize(
    ("kind", "spellings"),
    [
        ("int64", [np.int64, "int64", np.dtype("int64"), int, tfrecord.int64, DType("int64")]),
        ("float32", [np.float32, "float32", float, "float", tfrecord.float32, DType("float32")]),
        (
            "bytes",
            [
                *[bytes, str, object, "string", "bytes", "S", np.object_, np.str_, np.bytes_],
                *[np.dtype("S3"), tfrecord.string, DType("string")],
            ],
        ),
    ],
)
def test_spellings(kind: str, spellings: list[object]) -> None:
    key = {"int64": "i", "float32": "f", "bytes": "b"}[kind]
    wanted = parse_single_example(RECORD, {key: VarLenFeature(spellings[0])})[key].values
    for spelling in spellings:
        assert kind_of(spelling, "x") == kind
        found = parse_single_example(RECORD, {key: VarLenFeature(spelling)})[key].values
        assert found.tolist() == wanted.tolist()
        assert found.dtype == wanted.dtype


@pytest.mark.parametrize(
    "wrong",
    [None, np.int32, "int32", np.float64, bool, "no such", 5, DType("int32"), DType("no such")],
    ids=repr,
)
def test_other_types_are_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r'feature "x": dtype is .*int64, float32 or bytes'):
        parse_single_example(RECORD, {"x": FixedLenFeature([], wrong)})


def test_a_shape_of_none_is_refused() -> None:
    for make in (FixedLenFeature, FixedLenSequenceFeature):
        with pytest.raises(ValueError, match="shape is None; it must be the size of each"):
            make(None, np.int64)  # type: ignore[arg-type]


def test_defaults_are_numpy_scalars() -> None:
    for value in (np.int32(3), np.uint8(3), np.float32(3), np.float16(3)):
        found = parse_single_example(b"", {"x": FixedLenFeature([], np.int64, value)})["x"]
        assert (found.item(), found.dtype) == (3, np.int64)
    for wrong in (np.float32(1.5), np.float32("inf"), np.float32("nan"), 3.0):
        with pytest.raises(ValueError, match=r"default_value .* is no int64"):
            parse_single_example(b"", {"x": FixedLenFeature([], np.int64, wrong)})


def test_other_types_of_numbers_are_those_of_numpy() -> None:
    assert numpy_dtype(DType("uint8")) == np.uint8
    assert numpy_dtype("half") == np.float16
    assert numpy_dtype(DType("resource")) is None


def theirs(name: str, **fields: object) -> Any:
    """Return an object that looks like a feature of tf.io from outside."""
    module = "tensorflow.python.ops.parsing_config"
    return namedtuple(name, fields, module=module)(**fields)


def test_features_of_tensorflow() -> None:
    int64, missing = DType("int64"), {"default_value": np.int64(7)}
    splits = theirs("RowLengths", key="lengths")
    ragged = {"partitions": [splits], "row_splits_dtype": DType("int32"), "validate": False}
    sparse = {"index_key": "lengths", "value_key": "i", "dtype": int64, "size": 9}
    features = {
        "fixed": theirs("FixedLenFeature", shape=[], dtype=int64, **missing),
        "i": theirs("VarLenFeature", dtype=int64),
        "steps": theirs(
            "FixedLenSequenceFeature", shape=[], dtype=int64, allow_missing=True, **missing
        ),
        "ragged": theirs("RaggedFeature", dtype=int64, value_key="i", **ragged),
        "sparse": theirs("SparseFeature", **sparse, already_sorted=False),
    }
    data = from_dict({"i": [5, 6], "lengths": [0, 2]}).SerializeToString()
    found = parse_example([data], features)
    assert found["fixed"].tolist() == [7]
    assert found["i"].values.tolist() == found["sparse"].values.tolist() == [5, 6]
    assert found["steps"].shape == (1, 0)
    assert found["ragged"].to_list() == [[[], [5, 6]]]
    own = RaggedFeature("int64", "i", [splits])
    assert own.partitions == (RaggedFeature.RowLengths("lengths"),)
    with pytest.raises(ValueError, match="Other cannot be read here"):
        parse_example([data], {"x": theirs("Other", dtype=int64)})
