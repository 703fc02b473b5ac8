"""parse_example and its siblings on bytes that no library writes, and on damaged bytes."""

from __future__ import annotations

import math
import random
import re
import struct
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from ffrfs.errors import FormatError
from ffrfs.tfrecord.examples.example import Example, from_dict, to_dict
from ffrfs.tfrecord.parsing.features import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    VarLenFeature,
)
from ffrfs.tfrecord.parsing.parse import (
    parse_example,
    parse_single_example,
    parse_single_sequence_example,
)
from tests.tfrecord_example import field, varint
from tests.tfrecord_file import tfrecord_records


def tag(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


def example(name: str, feature: bytes) -> bytes:
    return field(1, field(1, field(1, name.encode()) + field(2, feature)))


# One field of each wire type, with numbers that the messages do not have; groups nest.
UNKNOWN = (
    tag(15, 0) + varint(1)
    + tag(15, 1) + bytes(8)
    + field(15, b"abc")
    + tag(15, 5) + bytes(4)
    + tag(9, 3) + tag(8, 0) + varint(300) + tag(7, 3) + tag(7, 4) + tag(9, 4)
)  # fmt: skip


@st.composite
def features(draw: st.DrawFn) -> tuple[type, list, bytes]:
    """Draw (dtype, values, a Feature that holds them in some legal encoding)."""
    dtype = draw(st.sampled_from([np.int64, np.float32, bytes]))
    number = {bytes: 1, np.float32: 2, np.int64: 3}[dtype]
    noise = st.sampled_from([b"", UNKNOWN])
    values, message = [], draw(noise)
    # Lists of another kind before this one are ignored.
    others = [field(other, b"") for other in (1, 2, 3) if other != number]
    message += draw(st.sampled_from([b"", *others, field(number, b"") + others[0]]))
    for _ in range(draw(st.integers(1, 3))):  # together they are one list
        content = draw(noise)
        for _ in range(draw(st.integers(0, 3))):
            if dtype is bytes:
                values.append(draw(st.binary(max_size=5)))
                content += field(1, values[-1])
                continue
            number_strategy = (
                st.integers(-(1 << 63), (1 << 63) - 1)
                if dtype is np.int64
                else st.floats(width=32, allow_nan=False)
            )
            run = draw(st.lists(number_strategy, max_size=3))
            encode = varint if dtype is np.int64 else (lambda value: struct.pack("<f", value))
            encoded = [encode(value) for value in run]
            if draw(st.booleans()):
                content += field(1, b"".join(encoded))
            else:
                wire_type = 0 if dtype is np.int64 else 5
                content += b"".join(tag(1, wire_type) + value for value in encoded)
            values += run
            content += draw(noise)
        message += field(number, content) + draw(noise)
    return dtype, values, message


@settings(max_examples=60)
@given(feature=features(), noise=st.sampled_from([b"", UNKNOWN]))
def test_any_legal_encoding(feature: tuple, noise: bytes) -> None:
    dtype, values, message = feature
    entry = field(2, message) + field(1, b"not this") + field(1, b"x")
    data = noise + field(1, noise + field(1, entry) + noise) + noise
    assert list(to_dict(Example.FromString(data))["x"]) == values  # protobuf reads the same
    # Unknown fields within the entry, too: protobuf's C++ skips them, as we do, and its Python
    # takes the entry for an unknown field.
    data = field(1, field(1, noise + entry + noise))

    found = parse_example([data, data], {"x": VarLenFeature(dtype)})["x"].values
    assert found.tolist() == values * 2
    if values:
        fixed = {"x": FixedLenFeature([len(values)], dtype)}
        assert parse_single_example(data, fixed)["x"].tolist() == values
    sequence = field(2, field(1, field(1, b"x") + field(2, noise + field(1, message) * 2)))
    _, lists = parse_single_sequence_example(sequence, {}, {"x": VarLenFeature(dtype)})
    assert lists["x"].values.tolist() == values * 2


def everything(message: Example) -> dict[str, VarLenFeature]:
    """Return the features that read all of `message`."""
    dtypes = {"int64_list": np.int64, "float_list": np.float32, "bytes_list": bytes, None: bytes}
    kinds = {name: value.WhichOneof("kind") for name, value in message.features.feature.items()}
    return {name: VarLenFeature(dtypes[kind]) for name, kind in kinds.items()}


def test_damaged_records_give_the_values_of_protobuf(golden: Path) -> None:
    """Records with changed bits, bytes or ends: both give the same values, or refuse them."""
    golden_records = tfrecord_records((golden / "tf/examples.tfrecord").read_bytes())
    sources = [record for record in golden_records if len(record) < 3000]
    assert len(sources) > 10
    parsed = refused = stricter = 0
    for seed in range(4000):
        chance = random.Random(seed)
        damaged = bytearray(chance.choice(sources))
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(damaged))
            if chance.random() < 0.5:
                damaged[place] ^= 1 << chance.randrange(8)
            elif chance.random() < 0.9:
                damaged[place] = chance.randrange(256)
            else:
                del damaged[place:]
                damaged += b"\0"
        record = bytes(damaged)
        try:
            message = Example.FromString(record)
        except DecodeError:
            message = None
        wanted = to_dict(message) if message else {}
        try:
            features = everything(message) if message else {}
            found = parse_single_example(record, features or {"no such": VarLenFeature(bytes)})
        except FormatError as error:
            stricter += message is not None
            assert message is None or "a name with two values" in str(error)
            refused += 1
            continue
        # Features are not looked into unless they are requested; of a bad message, none is.
        for name, values in wanted.items():
            expected = [] if values is None else list(values)
            actual = found[name].values.tolist()
            assert len(actual) == len(expected)
            for left, right in zip(actual, expected, strict=True):
                assert left == right or (math.isnan(left) and math.isnan(right))
        parsed += message is not None
    assert parsed > 500
    assert refused > 300
    assert stricter < 10


GOOD = from_dict({"a": [1, 2], "f": 0.5, "b": b"x"}).SerializeToString()
ONE = FixedLenFeature([], np.int64)


@pytest.mark.parametrize(
    ("name", "feature", "reason"),
    [
        ("z", ONE, "is not there, and is required: int64_list of 1 value"),
        ("z", FixedLenFeature([2, 3], bytes), "is required: bytes_list of 6 values"),
        ("a", ONE, "2 values, expected 1"),
        ("a", FixedLenFeature([3], np.int64, [0, 0, 0]), "2 values, expected 3"),
        ("a", FixedLenFeature([2], np.float32), "holds int64_list, expected float_list"),
        ("f", VarLenFeature(np.int64), "holds float_list, expected int64_list"),
        ("b", VarLenFeature(np.float32), "holds bytes_list, expected float_list"),
        ("f", FixedLenSequenceFeature([], bytes, True), "holds float_list, expected bytes_list"),
        ("a", FixedLenSequenceFeature([3], np.int64, True), "2 values, expected a multiple of 3"),
    ],
    ids=repr,
)
def test_errors_name_feature_and_example(name: str, feature: object, reason: str) -> None:
    with pytest.raises(FormatError, match=f'^feature "{name}": .*{reason}$'):
        parse_single_example(GOOD, {"a": VarLenFeature(np.int64), name: feature})
    with pytest.raises(FormatError, match=f'^a.tfrecord, record 3: feature "{name}": .*{reason}$'):
        parse_single_example(GOOD, {name: feature}, name="a.tfrecord, record 3")
    sound = from_dict({name: default_of(feature)}).SerializeToString()
    with pytest.raises(FormatError, match=f'^example 1, feature "{name}": .*{reason}$'):
        parse_example([sound, GOOD, sound], {name: feature})
    if not isinstance(feature, FixedLenSequenceFeature):
        with pytest.raises(FormatError, match=f'^context feature "{name}": .*{reason}$'):
            parse_single_sequence_example(GOOD, {name: feature})


def default_of(feature: object) -> object:
    """Return a default value that the feature accepts."""
    value = b"x" if feature.dtype is bytes else np.array([1], feature.dtype)
    count = 1 if isinstance(feature, VarLenFeature) else math.prod(feature.shape)
    return [value] * count if feature.dtype is bytes else np.repeat(value, count)


def test_a_feature_without_a_list_is_missing_but_not_in_a_context() -> None:
    data = from_dict({"x": None}).SerializeToString()
    assert parse_single_example(data, {"x": FixedLenFeature([], np.int64, 5)})["x"] == 5
    with pytest.raises(FormatError, match='feature "x": is not there'):
        parse_example([data], {"x": ONE})
    for feature in (ONE, FixedLenFeature([], np.int64, 5)):
        with pytest.raises(FormatError, match='context feature "x": holds no list, expected int'):
            parse_single_sequence_example(data, {"x": feature})


def test_errors_of_feature_lists() -> None:
    data = from_dict({"feature_lists": {"l": [[1, 2], [3]], "k": [[1], None]}}).SerializeToString()

    def reason(name: str, feature: object) -> str:
        with pytest.raises(FormatError) as caught:
            parse_single_sequence_example(data, {}, {name: feature}, name="r")
        return str(caught.value)

    assert reason("l", FixedLenSequenceFeature([2], np.int64)) == (
        'r: feature list "l", step 1: 1 value, expected 2'
    )
    assert reason("l", VarLenFeature(bytes)) == (
        'r: feature list "l", step 0: holds int64_list, expected bytes_list'
    )
    assert reason("k", FixedLenSequenceFeature([], np.int64)) == (
        'r: feature list "k", step 1: holds no list, expected int64_list'
    )
    assert reason("z", FixedLenSequenceFeature([], np.int64)) == (
        'r: feature list "z": is not there, and is required: int64_list of 1 value'
    )


MALFORMED = {
    "cut off": (GOOD[:-1], "a field that ends beyond its message at byte 0"),
    "text": (b"a line of text\n", "a field that ends beyond its message"),
    "huge length": (tag(1, 2) + b"\xff\xff\xff\xff\x0fx", "ends beyond its message at byte 0"),
    "endless number": (tag(7, 0) + b"\xff" * 20, "a number of too many bytes at byte 0"),
    "field 0": (GOOD + b"\0\0", f"field number 0 at byte {len(GOOD)}"),
    "end of a group": (GOOD + tag(5, 4), f"has not begun at byte {len(GOOD)}"),
    "open group": (GOOD + tag(5, 3), "a group without an end"),
    "deep groups": (tag(5, 3) * 100_000, "groups that nest too deep"),
    "wire type 6": (tag(5, 6), "a field of no known wire type"),
    "name": (field(1, field(1, field(1, b"\xff"))), "a name that is not UTF-8"),
    "number in a list": (example("a", field(3, field(1, b"\1\x80"))), "off at byte 14 of 15"),
    "float in a list": (example("a", field(2, field(1, b"abc"))), "end within a float"),
    "bytes in a list": (example("a", field(1, b"\x0a\x05x")), "ends beyond its message"),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_bytes_are_refused_and_the_place_named(kind: str) -> None:
    data, reason = MALFORMED[kind]
    dtype = {"float in a list": np.float32, "bytes in a list": bytes}.get(kind, np.int64)
    features = {"a": VarLenFeature(dtype)}
    pattern = f"is not an Example: .*{re.escape(reason)}"
    with pytest.raises(FormatError, match=f"^{pattern}"):
        parse_single_example(data, features)
    with pytest.raises(FormatError, match=f"^example 2: {pattern}"):
        parse_example([b"", GOOD if dtype is np.int64 else b"", data], features)
    with pytest.raises(FormatError, match=pattern):
        parse_single_sequence_example(data, features)


@pytest.mark.parametrize(
    ("feature", "reason"),
    [
        (FixedLenFeature([], np.int32), "it must be int64, float32 or bytes"),
        (FixedLenFeature([], np.float64), "it must be int64, float32 or bytes"),
        (FixedLenFeature([], bool), "it must be int64, float32 or bytes"),
        (VarLenFeature(None), "it must be int64, float32 or bytes"),
        (VarLenFeature("no such"), "it must be int64, float32 or bytes"),
        (VarLenFeature(">i8"), "it must be int64, float32 or bytes"),
        (FixedLenFeature([None], np.int64), "each dimension must be known"),
        (FixedLenFeature([-1], np.int64), "each dimension must be known"),
        (FixedLenFeature([2], np.int64, 1), "default_value has 1 values, shape .* needs 2"),
        (FixedLenFeature([], np.int64, 0.5), "default_value 0.5 is no int64"),
        (FixedLenFeature([], np.int64, 1 << 63), "is no int64"),
        (FixedLenFeature([], np.float32, b"x"), "is no float32"),
        (FixedLenFeature([], bytes, 1), "default_value 1 is no bytes"),
        (FixedLenSequenceFeature([], np.int64), "must be one with allow_missing=True"),
        (FixedLenSequenceFeature([0], np.int64, True), "a step must have values"),
        (FixedLenSequenceFeature([], np.int64, True, [1, 2]), "default_value has 2 values"),
        ((np.int64,), "tuple cannot be read here"),
    ],
    ids=repr,
)
def test_invalid_features_are_refused(feature: object, reason: str) -> None:
    for parse in (parse_single_example, lambda data, asked: parse_example([data], asked)):
        with pytest.raises(ValueError, match=f'^feature "some/name": .*{reason}') as caught:
            parse(GOOD, {"some/name": feature})
        assert not isinstance(caught.value, FormatError)


@pytest.mark.parametrize("name", [1, None, ("a", "b")])
def test_names_that_are_no_text(name: object) -> None:
    for feature in (ONE, VarLenFeature(np.int64), RaggedFeature(np.int64)):
        with pytest.raises(TypeError, match=r"^names of features are text, not "):
            parse_example([GOOD], {name: feature})
    with pytest.raises(TypeError, match=r"^names of features are text, not "):
        parse_single_sequence_example(b"", {}, {name: VarLenFeature(np.int64)})


def test_features_that_a_sequence_cannot_have() -> None:
    sequence = FixedLenSequenceFeature([], np.int64, True)
    with pytest.raises(ValueError, match="FixedLenSequenceFeature cannot be read here"):
        parse_single_sequence_example(b"", {"x": sequence})
    with pytest.raises(ValueError, match="FixedLenFeature cannot be read here"):
        parse_single_sequence_example(b"", {}, {"x": ONE})
    with pytest.raises(ValueError, match="a step must have values"):
        parse_single_sequence_example(b"", {}, {"x": FixedLenSequenceFeature([0], np.int64)})
