"""A small FFRecord writer and reader for tests: independent of ffrfs, and able to lie.

| hex offset | size | field                                                     |
|------------|------|-----------------------------------------------------------|
| 0x00       | 4    | CRC-32 of all bytes up to the first record; 0: none       |
| 0x04       | 8    | n, the number of records                                  |
| 0x0c       | 4·n  | CRC-32 of each record                                     |
| 12 + 4·n   | 8·n  | absolute offset of each record                            |
| 12 + 12·n  | …    | the records                                               |
"""

from __future__ import annotations

import collections
import pickle
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

INDEX_MAGIC = b"piouhjgbr"

Tree = dict[str, "bytes | Tree"]


class Header:
    """The header of a file that holds `records`; spoil its fields, then encode()."""

    def __init__(self, records: Sequence[bytes]) -> None:
        self.n = len(records)
        self.checksums = [zlib.crc32(record) for record in records]
        self.offsets = [12 + 12 * self.n]
        for record in records:
            self.offsets.append(self.offsets[-1] + len(record))
        self.offsets.pop()
        self.checksum: int | None = None  # None: the correct one

    def encode(self) -> bytes:
        body = struct.pack("<q", self.n)
        body += struct.pack(f"<{len(self.checksums)}I", *self.checksums)
        body += struct.pack(f"<{len(self.offsets)}q", *self.offsets)
        checksum = zlib.crc32(body) if self.checksum is None else self.checksum
        return struct.pack("<I", checksum) + body


def write_records(
    path: Path, records: Sequence[bytes], spoil: Callable[[Header], None] | None = None
) -> Path:
    header = Header(records)
    if spoil is not None:
        spoil(header)
    path.write_bytes(header.encode() + b"".join(records))
    return path


def folder_records(tree: Tree) -> list[bytes]:
    """Return the records of a packed folder: its files, sorted by name, and then the index."""
    records: list[bytes] = []

    def index_of(folder: Tree) -> collections.OrderedDict[str, object]:
        index: collections.OrderedDict[str, object] = collections.OrderedDict()
        for name in sorted(folder):
            entry = folder[name]
            if isinstance(entry, dict):
                index[name] = index_of(entry)
            else:
                index[name] = len(records)
                records.append(entry)
        return index

    index = index_of(tree)
    return [*records, INDEX_MAGIC + pickle.dumps(index)]


def write_folder(path: Path, tree: Tree, spoil: Callable[[Header], None] | None = None) -> Path:
    return write_records(path, folder_records(tree), spoil)


def record_extents(path: Path) -> list[tuple[int, int]]:
    """Return (offset, size) of each record of a well-formed file."""
    data = path.read_bytes()
    (n,) = struct.unpack_from("<q", data, 4)
    offsets = [*struct.unpack_from(f"<{n}q", data, 12 + 4 * n), len(data)]
    return [(offsets[i], offsets[i + 1] - offsets[i]) for i in range(n)]


def flip_byte(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0xFF]))
