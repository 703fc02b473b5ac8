"""parse_example and its siblings give TensorFlow's results, from the record's bytes."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs.errors import FormatError
from ffrfs.tfrecord.examples.example import from_dict
from ffrfs.tfrecord.parsing.features import FixedLenFeature, FixedLenSequenceFeature, VarLenFeature
from ffrfs.tfrecord.parsing.parse import (
    parse_example,
    parse_single_example,
    parse_single_sequence_example,
)
from ffrfs.tfrecord.parsing.values import SparseValue
from tests.tfrecord_file import tfrecord_records


def record(**values: object) -> bytes:
    return from_dict(values).SerializeToString()


def check(found: object, expected: object) -> None:
    """Assert that both are equal in type, dtype, shape and values."""
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for name, value in expected.items():
            check(found[name], value)
    elif isinstance(expected, SparseValue):
        assert type(found) is SparseValue
        for part, wanted in zip(found, expected, strict=True):
            check(part, wanted)
    else:
        assert type(found) is np.ndarray
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert found.tolist() == expected.tolist()
        assert found.flags.writeable
        assert found.flags.owndata
        if found.dtype == object:
            assert all(type(item) is bytes for item in found.reshape(-1))


def ints(values: object) -> np.ndarray:
    return np.array(values, np.int64)


def floats(values: object) -> np.ndarray:
    return np.array(values, np.float32)


def texts(values: object) -> np.ndarray:
    return np.array(values, object)


def sparse(indices: object, values: np.ndarray, shape: list[int]) -> SparseValue:
    return SparseValue(ints(indices).reshape(-1, len(shape)), values, ints(shape))


def test_results_of_tensorflow(golden: Path) -> None:
    expected = np.load(golden / "tf/parse_example.npz")
    features = {
        "image/height": FixedLenFeature([], np.int64),
        "embedding": FixedLenFeature([8], np.float32),
        "weights": VarLenFeature(np.float32),
        "image/format": FixedLenFeature([], bytes),
        "missing": FixedLenFeature([], np.int64, -1),
    }
    records = tfrecord_records((golden / "tf/examples.tfrecord").read_bytes())
    found = parse_example(records, features)
    weights = SparseValue(expected["w_indices"], expected["w_values"], expected["w_shape"])
    wanted = {
        "image/height": expected["height"],
        "embedding": expected["embedding"],
        "weights": weights,
        "image/format": texts([text.encode() for text in expected["fmt"].tolist()]),
        "missing": expected["missing"],
    }
    check(found, wanted)


BATCH = [
    record(i=[1, 2], f=[0.5], b=[b"a"], v=[7, 8, 9], s=[1, 2, 3, 4]),
    record(i=[3, 4], f=[1.5], b=[b"\0"], s=[5, 6], v=None),
    record(i=[-5, 6], f=2.5, b=""),
]
FEATURES = {
    "i": FixedLenFeature([2], np.int64),
    "f": FixedLenFeature([], np.float32),
    "b": FixedLenFeature((1, 1), bytes),
    "v": VarLenFeature("int64"),
    "s": FixedLenSequenceFeature([2], int, allow_missing=True, default_value=-1),
}


def test_a_batch_has_one_more_dimension() -> None:
    wanted = {
        "i": ints([[1, 2], [3, 4], [-5, 6]]),
        "f": floats([0.5, 1.5, 2.5]),
        "b": texts([[[b"a"]], [[b"\0"]], [[b""]]]),
        "v": sparse([(0, 0), (0, 1), (0, 2)], ints([7, 8, 9]), [3, 3]),
        "s": ints([[[1, 2], [3, 4]], [[5, 6], [-1, -1]], [[-1, -1], [-1, -1]]]),
    }
    check(parse_example(BATCH, FEATURES), wanted)


def test_a_single_example_has_no_batch_dimension() -> None:
    wanted = {
        "i": ints([1, 2]),
        "f": floats(0.5),
        "b": texts([[b"a"]]),
        "v": sparse([0, 1, 2], ints([7, 8, 9]), [3]),
        "s": ints([[1, 2], [3, 4]]),
    }
    check(parse_single_example(BATCH[0], FEATURES), wanted)
    last = parse_single_example(BATCH[2], FEATURES)
    check(last["v"], sparse([], ints([]), [0]))
    check(last["s"], ints([]).reshape(0, 2))


def test_records_are_any_bytes_like_objects() -> None:
    arrays = [np.frombuffer(data, np.uint8) for data in BATCH]
    views = [memoryview(data) for data in BATCH]
    for batch in (tuple(BATCH), iter(BATCH), arrays, views, map(bytearray, BATCH)):
        check(parse_example(batch, FEATURES), parse_example(BATCH, FEATURES))
    check(parse_single_example(arrays[0], FEATURES), parse_single_example(BATCH[0], FEATURES))
    for alone in (BATCH[0], bytearray(BATCH[0]), views[0]):
        check(parse_example(alone, FEATURES), parse_single_example(BATCH[0], FEATURES))
    with pytest.raises(TypeError, match="bytes, not str"):
        parse_example("text", FEATURES)
    for wrong in (["text"], [None], [BATCH[0], 1]):
        with pytest.raises(TypeError, match="bytes-like"):
            parse_example(wrong, FEATURES)
    with pytest.raises(TypeError, match="bytes-like"):
        parse_single_example("text", FEATURES)


@pytest.mark.parametrize(
    ("shape", "dtype", "default", "expected"),
    [
        ([], np.int64, 7, ints([7])),
        ([], "int64", np.int16(7), ints([7])),
        ([2], np.int64, [7, -8], ints([[7, -8]])),
        ([2, 1], np.int64, np.array([[7], [8]]), ints([[[7], [8]]])),
        ([1], np.int64, 7, ints([[7]])),
        ([], np.float32, 7, floats([7])),
        ([2], np.dtype("float32"), (0.1, 2), floats([[0.1, 2]])),
        ([], bytes, b"\0", texts([b"\0"])),
        ([], bytes, "é", texts(["é".encode()])),
        ([2], bytes, [b"a\0", "b"], texts([[b"a\0", b"b"]])),
        ([], np.int64, True, ints([1])),
        (1, np.int64, 7, ints([[7]])),
    ],
    ids=repr,
)
def test_defaults(shape: list[int], dtype: object, default: object, expected: object) -> None:
    features = {"x": FixedLenFeature(shape, dtype, default)}
    check(parse_example([b""], features)["x"], expected)
    check(parse_example([record(y=1)], features)["x"], expected)
    check(
        parse_single_example(record(x=None), features)["x"],
        expected[0:1].reshape(expected.shape[1:]),
    )
    context, _ = parse_single_sequence_example(b"", features)
    check(context["x"], expected.reshape(expected.shape[1:]))


def test_defaults_that_compare_equal_are_not_the_same() -> None:
    for default in ("0.0", "-0.0"):
        feature = FixedLenFeature([], np.float32, (float(default),))
        assert str(parse_single_example(record(y=1), {"x": feature})["x"]) == default
    with pytest.raises(ValueError, match=r"default_value 1\.0 is no int64"):
        for one in (1, 1.0):
            parse_single_example(record(y=1), {"x": FixedLenFeature([], np.int64, (one,))})


@pytest.mark.parametrize("dtype", [np.int64, np.float32, bytes])
def test_padding(dtype: object) -> None:
    values = {np.int64: [1, 2], np.float32: [0.5, 1.5], bytes: [b"a", b"b"]}[dtype]
    zero, other = {np.int64: (0, 9), np.float32: (0.0, 0.25), bytes: (b"", b"pad")}[dtype]
    batch = [record(x=values[:1]), b"", record(x=values)]
    make = {np.int64: ints, np.float32: floats, bytes: texts}[dtype]
    for default, fill in ((None, zero), (other, other)):
        feature = FixedLenSequenceFeature([], dtype, allow_missing=True, default_value=default)
        wanted = make([[values[0], fill], [fill, fill], values])
        check(parse_example(batch, {"x": feature})["x"], wanted)


def test_of_two_features_of_one_name_the_last_counts() -> None:
    features = {"x": FixedLenFeature([], np.int64), "v": VarLenFeature(bytes)}
    twice = record(x=1, v=[b"a", b"b"]) + record(x=2, v=b"c")
    check(parse_single_example(twice, features)["x"], ints(2))
    check(parse_example([twice], features)["v"], sparse([(0, 0)], texts([b"c"]), [1, 1]))


def test_an_empty_request_is_refused() -> None:
    for parse in (parse_example, parse_single_example):
        with pytest.raises(ValueError, match="features is empty"):
            parse(BATCH[0], {})
    with pytest.raises(ValueError, match="name a feature"):
        parse_single_sequence_example(b"", {}, None)


def test_an_empty_default_is_no_default() -> None:
    features = {"x": FixedLenFeature([0], np.int64, [])}
    check(parse_single_example(record(x=ints([])), features), {"x": ints([])})
    with pytest.raises(FormatError, match="is required"):
        parse_single_example(b"", features)


def test_a_feature_list_takes_no_default() -> None:
    features = {"x": FixedLenSequenceFeature([], np.int64, default_value=3)}
    with pytest.raises(ValueError, match="takes no default_value"):
        parse_single_sequence_example(b"", None, features)


def test_names_of_examples() -> None:
    features = {"x": FixedLenFeature([], np.int64)}
    with pytest.raises(FormatError, match=r'^second: feature "x": is not there'):
        parse_example([record(x=1), b""], features, ["first", b"second"])
    with pytest.raises(FormatError, match=r'^alone: feature "x": is not there'):
        parse_example(b"", features, "alone")
    with pytest.raises(ValueError, match="one for each of 2 records"):
        parse_example([record(x=1)] * 2, features, example_names=["first"])


def test_sequences() -> None:
    data = from_dict({
        "context": {"id": 7, "tags": ["a", "b"], "none": None},
        "feature_lists": {
            "frames": [[0.5, 1], [2.0, 3.0]],
            "words": [[b"a"], None, [b"b", b"c"]],
            "empty": [],
        },
    }).SerializeToString()  # fmt: skip
    context, lists = parse_single_sequence_example(
        data,
        {
            "id": FixedLenFeature([1], np.int64),
            "tags": VarLenFeature(bytes),
            "none": VarLenFeature(np.int64),
            "missing": VarLenFeature(np.float32),
            "default": FixedLenFeature([], bytes, b"d"),
        },
        {
            "frames": FixedLenSequenceFeature([2, 1], np.float32),
            "words": VarLenFeature(bytes),
            "empty": FixedLenSequenceFeature([], np.int64),
            "missing": VarLenFeature(np.int64),
            "allowed": FixedLenSequenceFeature([3], bytes, allow_missing=True),
        },
    )
    wanted_context = {
        "id": ints([7]),
        "tags": sparse([0, 1], texts([b"a", b"b"]), [2]),
        "none": sparse([], ints([]), [0]),
        "missing": sparse([], floats([]), [0]),
        "default": texts(b"d"),
    }
    wanted_lists = {
        "frames": floats([[[0.5], [1]], [[2], [3]]]),
        "words": sparse([(0, 0), (2, 0), (2, 1)], texts([b"a", b"b", b"c"]), [3, 2]),
        "empty": ints([]),
        "missing": sparse([], ints([]), [0, 0]),
        "allowed": texts([]).reshape(0, 3),
    }
    check(context, wanted_context)
    check(lists, wanted_lists)


def test_cached_parsers_depend_on_the_requested_features() -> None:
    data = record(x=5)
    for feature, expected in [
        (FixedLenFeature([], np.int64), ints(5)),
        (FixedLenFeature([1], np.int64), ints([5])),
        (FixedLenFeature([1], np.int64, np.array([3])), ints([5])),
        (FixedLenSequenceFeature([], np.int64, True), ints([5])),
        (VarLenFeature(np.int64), sparse([0], ints([5]), [1])),
        (FixedLenFeature([], np.int64), ints(5)),
    ]:
        check(parse_single_example(data, {"x": feature})["x"], expected)
    parse_single_example(data, {"x": FixedLenFeature([], np.int64, 1)})
    with pytest.raises(ValueError, match="is no int64"):
        parse_single_example(data, {"x": FixedLenFeature([], np.int64, 1.0)})
    with pytest.raises(ValueError, match="tuple cannot be read here"):
        parse_single_example(data, {"x": tuple(FixedLenFeature([], np.int64))})


def test_threads_and_a_list_that_changes() -> None:
    batch = BATCH * 300
    wanted = parse_example(batch, FEATURES)
    changing = list(batch)
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            changing.clear()
            changing.extend(batch)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            for found in pool.map(lambda _: parse_example(batch, FEATURES), range(12)):
                check(found, wanted)
            for found in pool.map(lambda _: parse_example(changing, FEATURES), range(30)):
                assert len(found["i"]) <= len(batch)
    finally:
        stop.set()
        thread.join()


KINDS = {
    np.int64: st.integers(-(1 << 63), (1 << 63) - 1),
    np.float32: st.floats(width=32, allow_nan=False),
    bytes: st.binary(max_size=300),
}
DTYPE = st.sampled_from(list(KINDS))


@st.composite
def batches(draw: st.DrawFn) -> tuple[dict[str, object], list[dict[str, list]]]:
    """Draw features, and for each example the values of the features that it has."""
    names = st.text("ab/é", max_size=4)
    dtypes = draw(st.dictionaries(names, DTYPE, min_size=1, max_size=6))
    examples, features = [], {}
    strides = {name: draw(st.integers(1, 3)) for name in dtypes}
    kinds = {name: draw(st.sampled_from(["fixed", "sequence", "variable"])) for name in dtypes}
    for name, dtype in dtypes.items():
        defaults = draw(st.lists(KINDS[dtype], min_size=strides[name], max_size=strides[name]))
        features[name] = {
            "fixed": FixedLenFeature([strides[name]], dtype, defaults),
            "sequence": FixedLenSequenceFeature([strides[name]], dtype, True, defaults[0]),
            "variable": VarLenFeature(dtype),
        }[kinds[name]]
    for _ in range(draw(st.integers(0, 5))):
        example = {}
        for name, dtype in dtypes.items():
            size = strides[name] if kinds[name] == "fixed" else draw(st.integers(0, 3))
            if kinds[name] == "sequence":
                size *= strides[name]
            if draw(st.booleans()):
                example[name] = draw(st.lists(KINDS[dtype], min_size=size, max_size=size))
        examples.append(example)
    return features, examples


def modelled(features: dict, examples: list[dict[str, list]]) -> dict[str, object]:
    """A model of parse_example in plain Python."""
    result = {}
    for name, feature in features.items():
        make = {np.int64: ints, np.float32: floats, bytes: texts}[feature.dtype]
        rows = [example.get(name) for example in examples]
        if isinstance(feature, FixedLenFeature):
            filled = [feature.default_value if row is None else row for row in rows]
            result[name] = make(filled).reshape(len(rows), *feature.shape)
            continue
        rows = [row or [] for row in rows]
        longest = max(map(len, rows), default=0)
        if isinstance(feature, VarLenFeature):
            places = [(row, i) for row, values in enumerate(rows) for i in range(len(values))]
            flat = make([value for values in rows for value in values])
            result[name] = sparse(places, flat, [len(rows), longest])
        else:
            padded = [row + [feature.default_value] * (longest - len(row)) for row in rows]
            stride = feature.shape[0]
            result[name] = make(padded).reshape(len(rows), longest // stride, stride)
    return result


def typed(values: list, dtype: object) -> object:
    return values if dtype is bytes else np.array(values, dtype)


@given(batch=batches(), others=st.booleans())
def test_any_batch(batch: tuple, others: bool) -> None:
    features, examples = batch
    serialized = []
    for example in examples:
        values = {name: typed(value, features[name].dtype) for name, value in example.items()}
        if others:
            values |= {"other": [1, 2], "image": b"x" * 1000, "none": None}
        serialized.append(from_dict(values).SerializeToString())
    wanted = modelled(features, examples)
    check(parse_example(serialized, features), wanted)
    for data, example in zip(serialized, examples, strict=True):
        single = parse_single_example(data, features)
        for name, value in modelled(features, [example]).items():
            if isinstance(value, SparseValue):
                check(single[name], SparseValue(value[0][:, 1:], value[1], value[2][1:]))
            else:
                check(single[name], value[0].copy() if value[0].ndim else value[0])
