"""ffrfs.tfrecord.examples.example: messages like TensorFlow's, and conversions with NumPy."""

from __future__ import annotations

import copy
import importlib.util
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, text_format
from hypothesis import given
from hypothesis import strategies as st

from ffrfs.tfrecord.examples import example as messages
from ffrfs.tfrecord.examples.example import Example, Feature, SequenceExample, from_dict, to_dict
from tests.checkout import CHECKOUT
from tests.tfrecord.examples import tensorflow_schema
from tests.tfrecord_file import tfrecord_records


@pytest.fixture(scope="session")
def published() -> dict[str, type]:
    """Return the classes of TensorFlow's schema, in a separate descriptor pool."""
    return tensorflow_schema.register(descriptor_pool.DescriptorPool())


def records(path: Path) -> list[bytes]:
    return tfrecord_records(path.read_bytes())


def plain(value: object) -> object:
    """Return a value of to_dict() in the form of golden/tf/*.json."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return {{"i": "int64_list", "f": "float_list"}[value.dtype.kind]: value.tolist()}
    if isinstance(value, list) and all(isinstance(item, bytes) for item in value):
        return {"bytes_list": [item.hex() for item in value]}
    return value


class TestGolden:
    def test_examples(self, golden: Path) -> None:
        expected = json.loads((golden / "tf/examples.json").read_text())
        read = records(golden / "tf/examples.tfrecord")
        assert [plain(to_dict(Example.FromString(record))) for record in read] == expected

    def test_sequences(self, golden: Path) -> None:
        expected = json.loads((golden / "tf/sequences.json").read_text())
        read = records(golden / "tf/sequences.tfrecord")
        assert len(read) == len(expected) == 10
        for record, sequence in zip(read, expected, strict=True):
            values = to_dict(SequenceExample.FromString(record))
            assert plain(values["context"]) == sequence["context"]
            lists = {k: [plain(step) for step in v] for k, v in values["feature_lists"].items()}
            assert lists == sequence["feature_lists"]

    def test_round_trip(self, golden: Path) -> None:
        for record in records(golden / "tf/examples.tfrecord"):
            message = Example.FromString(record)
            assert from_dict(to_dict(message)) == message
        for record in records(golden / "tf/sequences.tfrecord"):
            message = SequenceExample.FromString(record)
            assert from_dict(to_dict(message)) == message


VALUES = {
    "ints": [1, -(1 << 63), (1 << 63) - 1],
    "floats": [0.5, -1.25],
    "bytes": [b"", b"\0\xff"],
    "text": "é",
    "no ints": np.array([], np.int64),
    "no kind": None,
}


def test_bytes_and_text_are_those_of_tensorflow(published: dict[str, type]) -> None:
    sequence = {"context": VALUES, "feature_lists": {"l": [[1], [], [2, 3]], "": []}}
    for ours in (from_dict(VALUES), from_dict(sequence)):
        theirs = published[type(ours).__name__].FromString(ours.SerializeToString())
        data = theirs.SerializeToString(deterministic=True)
        assert data == ours.SerializeToString(deterministic=True)
        assert type(ours).FromString(data) == ours
        assert text_format.MessageToString(theirs) == text_format.MessageToString(ours)
        parsed = text_format.Parse(text_format.MessageToString(theirs), type(ours)())
        assert parsed == ours
        assert json_format.MessageToDict(theirs) == json_format.MessageToDict(ours)
        assert to_dict(theirs).keys() == to_dict(ours).keys()


def test_messages_have_the_methods_of_protobuf() -> None:
    message = Example()
    message.features.feature["label"].int64_list.value.extend([1, 2])
    message.features.feature["name"].bytes_list.value.append(b"x")
    other = Example()
    other.MergeFrom(message)
    assert other == message == copy.deepcopy(message) == pickle.loads(pickle.dumps(message))
    assert message.features.feature["label"].WhichOneof("kind") == "int64_list"
    message.features.feature["label"].float_list.value.append(0.5)
    assert not message.features.feature["label"].HasField("int64_list")
    assert type(message.features.feature["name"]) is Feature
    with pytest.raises(TypeError):
        message.features.feature["name"].bytes_list.value.append(1)


def test_fields_are_declared_as_in_tensorflow(published: dict[str, type]) -> None:
    for name, theirs in published.items():
        found, wanted = descriptor_pb2.DescriptorProto(), descriptor_pb2.DescriptorProto()
        ours = getattr(messages, name)
        ours.DESCRIPTOR.CopyToProto(found)
        theirs.DESCRIPTOR.CopyToProto(wanted)  # type: ignore[attr-defined]
        assert found == wanted
        assert ours.DESCRIPTOR.full_name == f"tensorflow.{name}"
        shown = [[field.has_presence for field in of.DESCRIPTOR.fields] for of in (ours, theirs)]
        assert shown[0] == shown[1]


# These run in processes of their own, because a descriptor pool forgets nothing.
OURS = """
from ffrfs.tfrecord.examples.example import Example as Ours
"""
TENSORFLOW = """
from tests.tfrecord.examples import tensorflow_schema
from google.protobuf import descriptor_pool
Theirs = tensorflow_schema.register(descriptor_pool.Default())["Example"]
"""
# protoc made it from one file that holds both. Its package, which loads torch, is not imported.
PYPI = """
import importlib.util
spec = importlib.util.spec_from_file_location("example_pb2", example_pb2)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
Theirs = module.Example
"""
EXCHANGE = """
ours = Ours()
ours.features.feature["a"].int64_list.value.extend([1, -2])
ours.features.feature["b"].bytes_list.value.append(b"x")
theirs = Theirs.FromString(ours.SerializeToString())
assert theirs.features.feature["a"].int64_list.value == [1, -2]
assert Ours.FromString(theirs.SerializeToString()) == ours
assert type(ours) is not type(theirs)
from ffrfs.tfrecord.examples.example import to_dict
assert to_dict(theirs)["b"] == [b"x"]
"""


@pytest.mark.parametrize("theirs", [TENSORFLOW, PYPI], ids=["tensorflow", "pypi"])
@pytest.mark.parametrize("ours_first", [True, False])
def test_messages_of_the_same_name_coexist_in_one_process(theirs: str, ours_first: bool) -> None:
    package = importlib.util.find_spec("tfrecord")
    if theirs is PYPI and (package is None or not package.origin):
        pytest.skip("the tfrecord package of PyPI is not installed")
    known = f"example_pb2 = {str(Path(package.origin).with_name('example_pb2.py'))!r}\n"
    program = known + (OURS + theirs if ours_first else theirs + OURS) + EXCHANGE
    subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        check=True,
        timeout=60,
        cwd=CHECKOUT,
        env={"PYTHONPATH": str(CHECKOUT)},
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, np.array([1])),
        (True, np.array([1])),
        (np.uint8(7), np.array([7])),
        ([np.int32(1), 2, False], np.array([1, 2, 0])),
        (np.array([[1, 2], [3, 4]], np.uint16), np.array([1, 2, 3, 4])),
        (np.asfortranarray(np.array([[1, 2], [3, 4]])), np.array([1, 2, 3, 4])),
        (np.array([], np.int32), np.array([], np.int64)),
        (np.array([True, False]), np.array([1, 0])),
        (range(3), np.array([0, 1, 2])),
        (0.5, np.array([0.5], np.float32)),
        (np.float16(0.5), np.array([0.5], np.float32)),
        ([1, 0.5], np.array([1, 0.5], np.float32)),
        (0.1, np.array([0.1], np.float32)),
        (np.array([np.nan, np.inf, -np.inf]), np.array([np.nan, np.inf, -np.inf], np.float32)),
        (np.array([], np.float64), np.array([], np.float32)),
        (b"a\0", [b"a\0"]),
        (bytearray(b"a"), [b"a"]),
        pytest.param(memoryview(b"a"), [b"a"], id="memoryview"),
        ("é", ["é".encode()]),
        ([b"a\0", "b"], [b"a\0", b"b"]),
        ([["a", "b"], ["c", "d"]], [b"a", b"b", b"c", b"d"]),
        (np.array([b"ab", b"c"]), [b"ab", b"c"]),
        (np.array(["é", "c"]), ["é".encode(), b"c"]),
        (np.array([b"a\0", b""], object), [b"a\0", b""]),
        ([], []),
        ((), []),
    ],
    ids=repr,
)
def test_stored_types_of_values(value: object, expected: object) -> None:
    stored = to_dict(from_dict({"x": value}))["x"]
    assert type(stored) is type(expected)
    if isinstance(expected, np.ndarray):
        assert stored.dtype == expected.dtype
        np.testing.assert_array_equal(stored, expected)
    else:
        assert stored == expected


def test_none_is_a_feature_without_a_kind() -> None:
    message = from_dict({"x": None})
    assert message.features.feature["x"].WhichOneof("kind") is None
    assert to_dict(message) == {"x": None}


@pytest.mark.parametrize(
    ("value", "error", "reason"),
    [
        (1 << 63, ValueError, "9223372036854775808 does not fit into an int64"),
        (-(1 << 63) - 1, ValueError, "does not fit into an int64"),
        ([-1, 1 << 63], ValueError, "does not fit into an int64"),
        (np.array([1, 1 << 63], np.uint64), ValueError, "does not fit into an int64"),
        (1e39, ValueError, r"1e\+39 does not fit into a float32"),
        ([0.5, 1 << 1030], ValueError, "does not fit into a float32"),
        ("\udc80", ValueError, "cannot be written as UTF-8"),
        ([[1], [2, 3]], TypeError, "a list of list cannot be stored"),
        ([np.zeros((1, 2)), np.zeros((1, 3))], ValueError, "are of different shapes"),
        (1j, TypeError, "complex128 cannot be stored"),
        ([np.timedelta64(1, "s")], TypeError, "a list of timedelta64 cannot be stored"),
        ([1.5, np.timedelta64(1, "ns")], TypeError, "a list of float, timedelta64 cannot be"),
        ([np.complex64(1j)], TypeError, "a list of complex64 cannot be stored"),
        ([1, "a"], TypeError, "a list of int, str cannot be stored"),
        ([None], TypeError, "a list of NoneType cannot be stored"),
        ({"a": 1}, TypeError, "a list of dict cannot be stored"),
        (np.array(["2020"], "M8[Y]"), TypeError, "datetime64.* cannot be stored"),
    ],
    ids=repr,
)
def test_values_that_cannot_be_stored_are_refused(
    value: object, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=f'^feature "some/name": .*{reason}'):
        from_dict({"some/name": value})
    with pytest.raises(error, match=rf'^feature "frames\[1\]": .*{reason}'):
        from_dict({"feature_lists": {"frames": [1, value]}})


def test_names_must_be_text() -> None:
    with pytest.raises(TypeError, match="a feature's name is a str, not bytes"):
        from_dict({b"x": 1})
    with pytest.raises(ValueError, match="the name cannot be written as UTF-8"):
        from_dict({"\udc80": 1})
    with pytest.raises(TypeError, match='feature list "l": int is no list of steps'):
        from_dict({"feature_lists": {"l": 1}})
    assert to_dict(from_dict({"": 1, "é/\0": 2})).keys() == {"", "é/\0"}


def test_an_example_may_have_features_named_like_parts_of_a_sequence() -> None:
    assert isinstance(from_dict({"context": [1], "feature_lists": [2]}), Example)
    assert isinstance(from_dict({"context": {}, "feature_lists": {}}), SequenceExample)
    assert isinstance(from_dict({"context": {}}), SequenceExample)
    assert isinstance(from_dict({}), Example)


VALUE = st.one_of(
    st.none(),
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1)).map(lambda v: np.array(v, np.int64)),
    st.lists(st.floats(width=32, allow_nan=False)).map(lambda v: np.array(v, np.float32)),
    st.lists(st.binary(max_size=20)),
)
NAME = st.text(st.characters(codec="utf-8"), max_size=10)
VALUES_BY_NAME = st.dictionaries(NAME, VALUE, max_size=6)


def same(left: object, right: object) -> bool:
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.tolist() == right.tolist()
    if isinstance(left, list) and left and not isinstance(left[0], bytes):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


@given(values=VALUES_BY_NAME, lists=st.dictionaries(NAME, st.lists(VALUE, max_size=4), max_size=3))
def test_any_values_round_trip(values: dict, lists: dict) -> None:
    assert same(to_dict(Example.FromString(from_dict(values).SerializeToString())), values)
    sequence = {"context": values, "feature_lists": lists}
    data = from_dict(sequence).SerializeToString()
    assert same(to_dict(SequenceExample.FromString(data)), sequence)


def test_pickles_of_older_versions_are_read() -> None:
    pickled = b"cffrfs.tfrecord.messages\nExample\n."
    assert pickle.loads(pickled) is Example
