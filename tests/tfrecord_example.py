"""Serialized tf.train.Examples with many numbers, made without ffrfs and without protobuf."""

from __future__ import annotations

import struct


def floats(values: bytes) -> bytes:
    """Return a Feature of packed floats: `values` has four bytes for each."""
    return _field(2, _field(1, values))


def ints(values: bytes) -> bytes:
    """Return a Feature of packed integers below 128: `values` has a byte for each."""
    return _field(3, _field(1, values))


def example(**features: bytes) -> bytes:
    entries = (
        _field(1, _field(1, name.encode()) + _field(2, feature))
        for name, feature in features.items()
    )
    return _field(1, b"".join(entries))


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


def _varint(number: int) -> bytes:
    if number < 128:
        return bytes([number])
    return bytes([number & 127 | 128]) + _varint(number >> 7)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data
