"""The frame of a record in a TFRecord file: length, checksum, data, checksum.

| size   | field                                   |
|--------|-----------------------------------------|
| 8      | length of the data, little-endian       |
| 4      | masked CRC-32C of these eight bytes     |
| length | the data                                |
| 4      | masked CRC-32C of the data              |

The file has nothing else: no header, no count, no padding. The layout is TensorFlow's
(tensorflow/core/lib/io/record_writer.h), the masking too (core/lib/hash/crc32c.h): a
checksum of data that contain their own checksums is weak, so the stored value is rotated
and shifted by a constant.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ffrfs._native import crc32c

if TYPE_CHECKING:
    from typing_extensions import Buffer

LENGTH = struct.Struct("<Q")
HEADER = struct.Struct("<QI")
FOOTER = struct.Struct("<I")
# The bytes that a record takes in the file besides its data.
FRAME_SIZE = HEADER.size + FOOTER.size

_MASK_DELTA = 0xA282EAD8


def masked_crc(data: Buffer) -> int:
    """Return the CRC-32C of a contiguous buffer, masked as the file holds it."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def encode_header(length: int) -> bytes:
    return HEADER.pack(length, masked_crc(LENGTH.pack(length)))


def encode_footer(data: Buffer) -> bytes:
    return FOOTER.pack(masked_crc(data))


def is_header(begin: bytes) -> bool:
    """Return whether `begin` begins with a length and its checksum."""
    return len(begin) >= HEADER.size and begin[: HEADER.size] == encode_header(
        LENGTH.unpack_from(begin)[0]
    )


def mismatch(said: int, given: int) -> str:
    """Return the text of an error about a checksum that does not match."""
    return f"checksum mismatch: the file says {said:#010x}, the bytes give {given:#010x}"
