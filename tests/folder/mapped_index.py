"""A mapped index that lies: it is changed, and all of its checksums are made right again.

docs/format.md defines the offsets. This works for indexes of less than 64 KiB.
"""

from __future__ import annotations

import struct
from pathlib import Path

from crc32c import crc32c

TRAILER_SIZE = 256
INODES, DIRECTORIES, NAMES, TARGETS, FILES, CHUNKED, CHUNKS, HEADER, SET = range(9)


def section(index: bytes, number: int) -> tuple[int, int]:
    """Return (offset, size)."""
    offset, size = struct.unpack_from("<QQ", index, len(index) - TRAILER_SIZE + 0x40 + 16 * number)
    return offset, size


def sealed(index: bytearray) -> bytes:
    (checked_size,) = struct.unpack_from("<Q", index, len(index) - TRAILER_SIZE + 0x18)
    assert checked_size <= 65536
    struct.pack_into("<I", index, checked_size, crc32c(index[:checked_size]))
    trailer = len(index) - TRAILER_SIZE
    struct.pack_into("<I", index, trailer + 0x3C, crc32c(index[checked_size : checked_size + 4]))
    struct.pack_into("<I", index, len(index) - 4, crc32c(index[trailer:-4]))
    return bytes(index)


def spoil(sidecar: Path, number: int, offset: int, data: bytes) -> None:
    """Write `data` at `offset` of a section of the sidecar."""
    index = bytearray(sidecar.read_bytes())
    begin, size = section(index, number)
    assert offset + len(data) <= size
    index[begin + offset : begin + offset + len(data)] = data
    sidecar.write_bytes(sealed(index))
