"""parse_tensor, serialize_tensor, decode_raw; test_golden_tf.py has TensorFlow's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from ffrfs.errors import FormatError
from ffrfs.tfrecord import decode_raw, parse_tensor, serialize_tensor
from ffrfs.tfrecord.examples.tensor import SIZE_MAX, tensor_type
from tests.tfrecord_example import field

NUMBERS = (
    *("float16", "float32", "float64", "int8", "int16", "int32", "int64", "bool"),
    *("uint8", "uint16", "uint32", "uint64", "complex64", "complex128"),
)


@given(st.data())
def test_round_trip(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(NUMBERS))
    array = data.draw(arrays(dtype, array_shapes(min_dims=0, min_side=0)))
    for order in ("<", ">"):
        given_array = np.asarray(array, np.dtype(dtype).newbyteorder(order), order="F")
        found = parse_tensor(serialize_tensor(given_array), dtype)
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert found.tobytes() == array.tobytes()
        assert found.flags.writeable


def test_strings() -> None:
    for strings in (b"a\0", "é", ["a", b"\0"], [["a"], ["b"]], np.array(["a", "bc"])):
        found = parse_tensor(serialize_tensor(strings), "string")
        wanted = np.array(strings, object)
        assert found.shape == wanted.shape
        assert all(type(value) is bytes for value in found.reshape(-1))
    assert parse_tensor(serialize_tensor("é"), bytes).item() == "é".encode()


def test_python_numbers_get_the_types_of_tensorflow() -> None:
    assert parse_tensor(serialize_tensor([1, -2]), np.int32).tolist() == [1, -2]
    assert parse_tensor(serialize_tensor(0.5), np.float32).item() == 0.5
    for number in (1 << 31, -(1 << 31) - 1):
        with pytest.raises(ValueError, match="does not fit into an int32"):
            serialize_tensor(number)
    for wrong in (np.array(["2020"], "M8[D]"), [object()]):
        with pytest.raises((TypeError, ValueError), match=r"no tensor|not a string"):
            serialize_tensor(wrong)


def proto(*fields: tuple[int, bytes]) -> bytes:
    """Return a TensorProto of float32 with these fields."""
    return b"\x08\x01" + b"".join(field(number, content) for number, content in fields)


def shape(*sizes: bytes) -> tuple[int, bytes]:
    return 2, b"".join(field(2, b"\x08" + size) for size in sizes)


HUGE = b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
ONE = np.float32(1).tobytes()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff", "not a serialised tensor"),
        (proto(shape(HUGE), (5, ONE)), "of more than 2147483648 bytes"),
        (proto(shape(HUGE, HUGE, HUGE), (5, ONE)), "of more than"),
        (proto(shape(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")), "no known shape"),
        (proto((2, b"\x18\x01")), "no known shape"),
        (b"\x08\x01\x12\xb0\x09" + b"\x12\x02\x08\x02" * 300, "the tensor has 300 dimensions"),
        (proto(shape(b"\x02"), (4, ONE)), "its content has 4 bytes"),
        (proto(shape(b"\x01"), (5, ONE * 2)), "it has 2 values"),
        (b"\x08\x63", "the tensor is of type 99, expected float32"),
        (b"", "the tensor is of type 0, expected float32"),
        (serialize_tensor([1]), "the tensor is of int32, expected float32"),
    ],
    ids=range(11),
)
def test_invalid_tensors_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(FormatError, match=f"^here: .*{reason}"):
        parse_tensor(data, np.float32, name="here")


def test_a_value_that_is_repeated() -> None:
    data = proto(shape(b"\x03"), (5, ONE))
    assert parse_tensor(data, np.float32).tolist() == [1, 1, 1]
    assert SIZE_MAX == 1 << 31


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((b"abc", np.int16), "3 bytes are not a whole number of int16"),
        (([b"ab", b"abcd"], np.int16), "string 1 has 4 bytes, the first one has 2"),
        ((b"ab", "string"), "it must be a type of numbers"),
        ((b"ab", None), "it must be a type of numbers"),
        ((b"ab", np.int16, True, 3), "fixed_length is 3"),
        ((b"ab", np.int16, True, 0), "fixed_length is 0"),
    ],
)
def test_decode_raw_refuses_wrong_arguments(arguments: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_raw(*arguments)


def test_raw_numbers() -> None:
    strings = np.array([[b"\1\0", b"\2\0"]], object)
    assert decode_raw(strings, "uint8").tolist() == [[[1, 0], [2, 0]]]
    assert decode_raw(strings, np.uint16, False).tolist() == [[[256], [512]]]
    assert decode_raw(b"\0\2", bool).tolist() == [False, True]
    assert decode_raw("ab", "uint8", fixed_length=3).tolist() == [97, 98, 0]
    assert decode_raw(b"ab", "uint8").flags.writeable


def test_type_and_shape_of_a_serialized_tensor() -> None:
    assert tensor_type(serialize_tensor(np.zeros((2, 3), np.float32))) == ("float32", (2, 3))
    assert tensor_type(serialize_tensor([b"a", b"b"])) == ("object", (2,))
    many = b"\x08\x01\x12\x08\x12\x06\x08\xff\xff\xff\xff\x07"  # its one value is repeated
    assert tensor_type(many) == ("float32", (2**31 - 1,))
    for other in (b"", b"\x08", b"\x08\x63\x12\x00", b"\x08\x01", b"text", b"\x08\xff"):
        assert tensor_type(other) is None
