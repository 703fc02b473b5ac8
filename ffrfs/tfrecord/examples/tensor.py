"""Tensors and raw numbers in bytes: parse_tensor, serialize_tensor, decode_raw.

Names and meanings are those of tf.io. A serialised tensor is TensorFlow's TensorProto; the
protobuf library makes the message in a separate descriptor pool. Tensors are NumPy arrays, those
of strings object arrays of `bytes`.

Errors: FormatError for bytes that are no such tensor, ValueError for a type without tensors.
Concurrency: functions without state.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from ffrfs.errors import FormatError
from ffrfs.tfrecord.parsing.dtypes import DType, numpy_dtype

# The limit of a serialised message; by repeating a value, a few bytes may declare more.
SIZE_MAX = 1 << 31
_DIMENSIONS_MAX = 254  # TensorFlow's limit

_Field = FieldDescriptorProto
_PACKAGE = "tensorflow"
# TensorFlow's numbers of the types, and the fields that hold values one by one.
_TYPES: dict[int, tuple[str, str]] = {
    1: ("float32", "float_val"),
    2: ("float64", "double_val"),
    3: ("int32", "int_val"),
    4: ("uint8", "int_val"),
    5: ("int16", "int_val"),
    6: ("int8", "int_val"),
    7: ("object", "string_val"),
    8: ("complex64", "scomplex_val"),
    9: ("int64", "int64_val"),
    10: ("bool", "bool_val"),
    17: ("uint16", "int_val"),
    18: ("complex128", "dcomplex_val"),
    19: ("float16", "half_val"),
    22: ("uint32", "uint32_val"),
    23: ("uint64", "uint64_val"),
}
_NUMBERS = {np.dtype(name): number for number, (name, _) in _TYPES.items()}
_VALUE_FIELDS = (
    ("float_val", 5, _Field.TYPE_FLOAT),
    ("double_val", 6, _Field.TYPE_DOUBLE),
    ("int_val", 7, _Field.TYPE_INT32),
    ("string_val", 8, _Field.TYPE_BYTES),
    ("scomplex_val", 9, _Field.TYPE_FLOAT),
    ("int64_val", 10, _Field.TYPE_INT64),
    ("bool_val", 11, _Field.TYPE_BOOL),
    ("dcomplex_val", 12, _Field.TYPE_DOUBLE),
    ("half_val", 13, _Field.TYPE_INT32),
    ("uint32_val", 16, _Field.TYPE_UINT32),
    ("uint64_val", 17, _Field.TYPE_UINT64),
)
Strings: TypeAlias = bytes | str | NDArray[Any] | list[Any] | tuple[Any, ...]


def _message_class() -> Any:  # noqa: ANN401 - made at run time
    file = FileDescriptorProto(name="ffrfs/tensor.proto", package=_PACKAGE, syntax="proto3")
    optional, repeated = _Field.LABEL_OPTIONAL, _Field.LABEL_REPEATED
    shape = file.message_type.add(name="TensorShapeProto")
    dimension: DescriptorProto = shape.nested_type.add(name="Dim")
    dimension.field.add(name="size", number=1, type=_Field.TYPE_INT64, label=optional)
    of = f".{_PACKAGE}.TensorShapeProto"
    message = _Field.TYPE_MESSAGE
    shape.field.add(name="dim", number=2, type=message, label=repeated, type_name=f"{of}.Dim")
    shape.field.add(name="unknown_rank", number=3, type=_Field.TYPE_BOOL, label=optional)

    tensor = file.message_type.add(name="TensorProto")
    tensor.field.add(name="dtype", number=1, type=_Field.TYPE_INT32, label=optional)
    tensor.field.add(name="tensor_shape", number=2, type=message, label=optional, type_name=of)
    tensor.field.add(name="tensor_content", number=4, type=_Field.TYPE_BYTES, label=optional)
    for name, number, field_type in _VALUE_FIELDS:
        field = tensor.field.add(name=name, number=number, type=field_type, label=repeated)
        field.options.packed = field_type != _Field.TYPE_BYTES
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.TensorProto"))


_TensorProto = _message_class()


def parse_tensor(serialized: bytes, out_type: DType, name: str | None = None) -> NDArray[Any]:
    """Return the array of a serialised TensorProto, which must be of type `out_type`.

    `name`: the record's, for errors. A tensor of more than 2 GiB is an error.
    """
    begin = f"{name}: " if name else ""
    wanted = numpy_dtype(out_type)
    if wanted is None or wanted not in _NUMBERS:
        raise ValueError(f"out_type is {out_type!r}; there is no tensor of it")
    try:
        message = _TensorProto.FromString(bytes(serialized))
    except DecodeError:
        raise FormatError(f"{begin}the bytes are not a serialised tensor") from None
    if message.dtype != _NUMBERS[wanted]:
        found = _TYPES.get(message.dtype, (f"type {message.dtype}", ""))[0]
        raise FormatError(f"{begin}the tensor is of {found}, expected {wanted}")
    if (rank := len(message.tensor_shape.dim)) > _DIMENSIONS_MAX:
        raise FormatError(f"{begin}the tensor has {rank:,} dimensions")
    shape = tuple(dimension.size for dimension in message.tensor_shape.dim)
    if message.tensor_shape.unknown_rank or min(shape, default=0) < 0:
        raise FormatError(f"{begin}the tensor has no known shape")
    if math.prod(shape) * wanted.itemsize > SIZE_MAX:
        raise FormatError(f"{begin}the tensor of shape {shape} is of more than {SIZE_MAX} bytes")
    try:
        return _values(message, wanted, math.prod(shape)).reshape(shape)
    except ValueError as error:
        raise FormatError(f"{begin}the tensor of shape {shape}: {error}") from None


def tensor_type(serialized: bytes) -> tuple[str, tuple[int, ...]] | None:
    """Return the type and shape of a serialised TensorProto; None for other bytes.

    This makes no values: a few bytes may declare many.
    """
    if not serialized.startswith(b"\x08"):  # the type, which comes first
        return None
    try:
        message = _TensorProto.FromString(serialized)
    except DecodeError:
        return None
    shape = tuple(dimension.size for dimension in message.tensor_shape.dim)
    is_known = message.dtype in _TYPES and message.HasField("tensor_shape")
    return (_TYPES[message.dtype][0], shape) if is_known and min(shape, default=0) >= 0 else None


def _values(message: Any, dtype: np.dtype[Any], count: int) -> NDArray[Any]:  # noqa: ANN401
    content = message.tensor_content
    if content:
        if dtype.kind == "O" or len(content) != count * dtype.itemsize:
            raise ValueError(f"its content has {len(content)} bytes")
        if dtype.kind == "b":
            return np.frombuffer(content, np.uint8).astype(bool)
        return np.frombuffer(content, dtype.newbyteorder("<")).astype(dtype)
    field = getattr(message, _TYPES[message.dtype][1])
    given = _listed(field, dtype)
    if len(given) > count:
        raise ValueError(f"it has {len(given)} values")
    if not len(given):
        return np.full(count, b"" if dtype.kind == "O" else 0, dtype)
    # As in TensorFlow, the last value is repeated for the rest.
    return np.concatenate([given, np.repeat(given[-1:], count - len(given))])


def _listed(field: Any, dtype: np.dtype[Any]) -> NDArray[Any]:  # noqa: ANN401
    if dtype == np.float16:
        return np.array(field, np.int32).astype(np.uint16).view(np.float16)
    if dtype.kind == "c":
        parts = np.array(field, np.float32 if dtype == np.complex64 else np.float64)
        if len(parts) % 2:
            raise ValueError("a complex value has two parts")
        return parts.view(dtype)
    if dtype.kind == "O":
        strings = np.empty(len(field), object)
        strings[:] = list(field)
        return strings
    if dtype.kind in "iu" and dtype.itemsize < np.dtype(np.int32).itemsize:
        return np.array(field, np.int32).astype(dtype)
    return np.array(field, dtype)


def serialize_tensor(tensor: object, name: str | None = None) -> bytes:
    """Return the serialised TensorProto of an array, or of an object that NumPy makes one of.

    As in TensorFlow, Python's numbers become float32 or int32. ValueError for a type that no
    tensor has.
    """
    array = np.asarray(tensor)
    if not hasattr(tensor, "dtype"):
        small = np.iinfo(np.int32)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        elif array.dtype == np.int64:
            if array.size and (array.max() > small.max or array.min() < small.min):
                raise ValueError("a number does not fit into an int32; give an array of int64")
            array = array.astype(np.int32)
    dtype = numpy_dtype(array.dtype.newbyteorder("="))
    if dtype is None or dtype not in _NUMBERS:
        raise ValueError(f"there is no tensor of {array.dtype}")
    message = _TensorProto(dtype=_NUMBERS[dtype])
    message.tensor_shape.SetInParent()
    for size in array.shape:
        message.tensor_shape.dim.add(size=size)
    if dtype.kind == "O":
        message.string_val.extend(_string(value) for value in _objects(tensor).reshape(-1))
    else:
        message.tensor_content = array.astype(dtype.newbyteorder("<"), copy=False).tobytes()
    return bytes(message.SerializeToString())


def decode_raw(
    input_bytes: Strings,
    out_type: DType,
    little_endian: bool = True,
    fixed_length: int | None = None,
    name: str | None = None,
) -> NDArray[Any]:
    """Return the numbers in bytes: an array of one dimension more than the input.

    `input_bytes`: one `bytes`, or an array or nested list of them, all of one length.
    `fixed_length`: use this many bytes of each, a multiple of the number's size; a shorter
    one is filled up with zero bytes, and a longer one is cut.
    """
    dtype = numpy_dtype(out_type)
    if dtype is None or dtype not in _NUMBERS or dtype.kind == "O":
        raise ValueError(f"out_type is {out_type!r}; it must be a type of numbers")
    strings = _objects(input_bytes)
    pieces = [_string(value) for value in strings.reshape(-1)]
    size = len(pieces[0]) if pieces else 0
    if fixed_length is not None:
        if fixed_length <= 0 or fixed_length % dtype.itemsize:
            raise ValueError(f"fixed_length is {fixed_length}; {dtype} needs a multiple")
        size = fixed_length
        pieces = [piece[:size].ljust(size, b"\0") for piece in pieces]
    for row, piece in enumerate(pieces):
        if len(piece) != size:
            raise FormatError(f"string {row} has {len(piece)} bytes, the first one has {size}")
    if size % dtype.itemsize:
        raise FormatError(f"{size} bytes are not a whole number of {dtype}")
    stored = np.dtype(np.uint8) if dtype.kind == "b" else dtype
    stored = stored.newbyteorder("<" if little_endian else ">")
    numbers = np.frombuffer(b"".join(pieces), stored)
    return numbers.astype(dtype).reshape(*strings.shape, size // dtype.itemsize)


def _objects(strings: object) -> NDArray[Any]:
    """Return an array of the strings as objects: NumPy's own type drops zero bytes at the end."""
    if isinstance(strings, np.ndarray):
        return strings.astype(object)
    return np.array(strings, object)


def _string(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"{type(value).__name__} is not a string of bytes")
