"""The table of tf.io in docs/compatibility.md: every name exists, and every difference is real."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pytest

from ffrfs import tfrecord
from ffrfs.errors import FormatError
from ffrfs.tfrecord import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    SparseValue,
    TFRecordOptions,
    TFRecordWriter,
    VarLenFeature,
    decode_raw,
    from_dict,
    parse_example,
    parse_sequence_example,
    parse_single_example,
    parse_tensor,
    serialize_tensor,
    tf_record_iterator,
)
from tests.docs.compatibility import Differences, Row, defaults, parameters, rows
from tests.tfrecord_example import field

ROWS = rows("tf.io and tf.train", "tf")
difference = Differences()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.original)
def test_name(row: Row) -> None:
    found = resolve_name(row.ours)
    renamed = {"SparseTensor": "SparseValue", "from_row_splits": "RaggedValue"}
    name = row.original.rpartition(".")[2]
    assert renamed.get(name, name) == row.ours.rpartition(".")[2]
    if not row.parameters:
        return
    text = row.parameters[1:-1].removeprefix("sp_input, ")  # ours is `self`
    wanted = parameters(eval(f"lambda {text}: None", {"np": np}))
    assert defaults(parameters(found)[: len(wanted)]) == defaults(wanted)


def record(**values: object) -> bytes:
    return from_dict(values).SerializeToString()


@difference("tf.io.parse_example")
def two_pieces(_: Path) -> None:
    runs = field(3, field(1, b"\1\2") + field(1, b"\3"))
    lists = field(3, field(1, b"\1\2")) + field(3, field(1, b"\3"))
    for feature in (runs, lists):  # TensorFlow: [1, 2]
        data = field(1, field(1, field(1, b"x") + field(2, feature)))
        found = parse_example([data], {"x": VarLenFeature("int64")})["x"]
        assert found.values.tolist() == [1, 2, 3]
        message = tfrecord.Example.FromString(data)
        assert list(message.features.feature["x"].int64_list.value) == [1, 2, 3]
    assert parse_example([], {"x": FixedLenFeature([], "int64")})["x"].shape == (0,)
    entry = field(1, b"x") + field(2, field(3, field(1, b"\1")))
    for features in (field(1, entry) + field(9, b"?"), field(1, entry + field(9, b"?"))):
        found = parse_example([field(1, features)], {"x": FixedLenFeature([], "int64")})["x"]
        assert found.tolist() == [1]  # TensorFlow: InvalidArgumentError


@difference("tf.io.parse_single_example")
def names_of_records(_: Path) -> None:
    for names in ({"example_names": "here"}, {"name": "here"}):
        with pytest.raises(FormatError, match=r"^here: "):
            parse_single_example(b"", {"x": FixedLenFeature([], "int64")}, **names)


@difference("tf.io.FixedLenFeature")
def dtypes(_: Path) -> None:
    for dtype, value in ((int, 1), (str, b"a"), (bytes, b"a")):
        found = parse_single_example(record(x=value), {"x": FixedLenFeature([], dtype)})
        assert found["x"].item() == value


@difference("tf.io.FixedLenSequenceFeature")
def one_number(_: Path) -> None:
    feature = FixedLenSequenceFeature(2, "int64", allow_missing=True)
    assert parse_single_example(record(x=[1, 2]), {"x": feature})["x"].tolist() == [[1, 2]]


@difference("tf.io.SparseFeature")
def sparse(_: Path) -> None:
    features = {"x": SparseFeature("i", "v", "int64", 4), "r": RaggedFeature("int64", "v")}
    batch = [record(i=[1], v=[1, 2]), record(i=[1, 2], v=[1])]
    with pytest.raises(FormatError, match="1 indices"):
        parse_example(batch, features)
    assert parse_example([record(i=[1], v=[5])], features)["r"].to_list() == [[5]]


@difference("tf.io.RaggedFeature")
def ragged(_: Path) -> None:
    feature = RaggedFeature("int64", "v", [RaggedFeature.RowLengths("p")], validate=False)
    features = {"x": feature, "v": VarLenFeature("int64")}
    with pytest.raises(FormatError, match="do not fit"):
        parse_single_example(record(v=[1], p=[2]), features)
    assert parse_single_example(record(v=[1], p=[1]), features)["v"].values.tolist() == [1]


@difference("tf.io.RaggedFeature.RowSplits")
def no_splits(_: Path) -> None:
    splits = [RaggedFeature.RowSplits("p")]
    features = {"x": RaggedFeature("int64", "v", splits, validate=True)}
    assert parse_single_example(b"", features)["x"].to_list() == []
    assert parse_example([b""], features)["x"].to_list() == [[]]


@difference("tf.io.RaggedFeature.ValueRowIds")
def limit_of_rows(_: Path) -> None:
    feature = RaggedFeature("int64", "v", [RaggedFeature.ValueRowIds("p")])
    with pytest.raises(FormatError, match="do not fit"):
        parse_single_example(record(v=[1], p=[67_108_864]), {"x": feature})


@difference("tf.io.parse_tensor")
def tensors(_: Path) -> None:
    with pytest.raises(ValueError, match="there is no tensor of it"):
        parse_tensor(serialize_tensor([1]), "bfloat16")
    size = b"\x08\xff\xff\xff\xff\x0f"  # 4 Gi
    with pytest.raises(FormatError, match="more than 2147483648 bytes"):
        parse_tensor(b"\x08\x01" + field(2, field(2, size)), "float32")


@difference("tf.io.parse_sequence_example")
def no_sequences(_: Path) -> None:
    features = {"x": FixedLenFeature([], "int64")}
    context, lists, lengths = parse_sequence_example([], features, {"y": VarLenFeature("int64")})
    assert context["x"].shape == (0,)
    assert lists["y"].values.shape == (0,)
    assert lengths == {}


@difference("tf.io.decode_raw")
def unsigned(_: Path) -> None:
    assert decode_raw(b"\1\0\0\0", "uint32").tolist() == [1]
    assert decode_raw(b"\1" + bytes(7), "uint64").tolist() == [1]


@difference("tf.io.TFRecordOptions")
def options(_: Path) -> None:
    for name, value in (("compression_level", 10), ("flush_mode", 4), ("window_bits", 15)):
        with pytest.raises(ValueError, match=name):
            TFRecordOptions("GZIP", **{name: value})


@difference("tf.io.TFRecordWriter.write")
def any_bytes(folder: Path) -> None:
    with TFRecordWriter(folder / "x") as writer:
        for data in (memoryview(b"a"), bytearray(b"b"), np.array([99], np.uint8), "é"):
            writer.write(data)
    assert list(tf_record_iterator(folder / "x")) == [b"a", b"b", b"c", "é".encode()]


@difference("tf.compat.v1.io.tf_record_iterator")
def compression_is_recognised(folder: Path) -> None:
    with TFRecordWriter(folder / "x", "GZIP") as writer:
        writer.write(b"a")
    assert list(tf_record_iterator(folder / "x")) == [b"a"]


@difference("tf.sparse.to_dense")
def dense(_: Path) -> None:
    values = np.array([b"a", b"b"], object)
    value = SparseValue(np.array([[2], [0]]), values, np.array([3]))
    assert value.to_dense().tolist() == [b"b", b"", b"a"]


@difference("tf.RaggedTensor.from_row_splits")
def rows_of_ragged(_: Path) -> None:
    value = tfrecord.RaggedValue(np.arange(3), np.array([0, 1, 3]))
    assert [value[0].tolist(), value[1].tolist()] == [[0], [1, 2]]
    with pytest.raises(TypeError):
        value[0:1]


def test_every_difference_has_a_check() -> None:
    assert {row.original for row in ROWS if row.difference} == difference.keys()


@pytest.mark.parametrize("name", sorted(difference))
def test_difference(tmp_path: Path, name: str) -> None:
    difference[name](tmp_path)
