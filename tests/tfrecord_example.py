"""Serialized tf.train.Examples with many numbers, made without ffrfs and without protobuf."""

from __future__ import annotations

import struct


def floats(values: bytes) -> bytes:
    """Return a Feature of packed floats: `values` has four bytes for each."""
    return field(2, field(1, values))


def ints(values: bytes) -> bytes:
    """Return a Feature of packed integers below 128: `values` has a byte for each."""
    return field(3, field(1, values))


def example(**features: bytes) -> bytes:
    entries = (
        field(1, field(1, name.encode()) + field(2, feature)) for name, feature in features.items()
    )
    return field(1, b"".join(entries))


def npy_floats(values: bytes) -> bytes:
    """Return what numpy.save() writes for these floats."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(values) // 4},), }}"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + text.ljust(117).encode() + b"\n" + values


def json_floats(name: str, value: float, count: int) -> bytes:
    """Return example.json of an Example with one feature: `count` (over 16) times `value`."""
    column = f"{value!r:>17}"
    values = ", ".join([column] * count)
    text = f'{{\n  "features": {{\n    "{name}": {{"float_list": [{values}]}}\n  }}\n}}\n'
    return text.encode()


def varint(number: int) -> bytes:
    """Return a number as protobuf writes it; a negative one has ten bytes."""
    number &= (1 << 64) - 1
    if number < 128:
        return bytes([number])
    return bytes([number & 127 | 128]) + varint(number >> 7)


def field(number: int, data: bytes) -> bytes:
    """Return a field that holds a message, text or bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data
