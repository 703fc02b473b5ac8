"""A small TFRecord writer and reader for tests: independent of ffrfs, and able to lie.

| size   | field                                   |
|--------|-----------------------------------------|
| 8      | length of the data, little-endian       |
| 4      | masked CRC-32C of these eight bytes     |
| length | the data                                |
| 4      | masked CRC-32C of the data              |
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from crc32c import crc32c


def masked(data: bytes) -> int:
    crc = crc32c(data)
    rotated = (crc >> 15) | ((crc & 0x7FFF) << 17)
    return (rotated + 0xA282EAD8) % 2**32


def frame(record: bytes, length: int | None = None) -> bytes:
    """Return a record's frame; a false `length` gets a correct checksum, too."""
    size = struct.pack("<Q", len(record) if length is None else length)
    return size + struct.pack("<I", masked(size)) + record + struct.pack("<I", masked(record))


def framed(records: Iterable[bytes]) -> bytes:
    return b"".join(map(frame, records))


def write_tfrecord(path: Path, records: Iterable[bytes]) -> Path:
    path.write_bytes(framed(records))
    return path


def tfrecord_extents(data: bytes) -> list[tuple[int, int]]:
    """Return (offset, size with its frame) of each record of a well-formed file."""
    extents = []
    offset = 0
    while offset < len(data):
        (length,) = struct.unpack_from("<Q", data, offset)
        extents.append((offset, length + 16))
        offset += length + 16
    return extents


def flip_record(file: Path, number: int, place: int = 12) -> str:
    """Damage a byte of a record's frame; return how errors name the record."""
    data = bytearray(file.read_bytes())
    offset, _ = tfrecord_extents(bytes(data))[number]
    data[offset + place] ^= 1
    file.write_bytes(data)
    return f"record {number} (offset {offset})"


def tfrecord_records(data: bytes) -> list[bytes]:
    return [data[at + 12 : at + size - 4] for at, size in tfrecord_extents(data)]
