"""A reader of the mapped index, written from docs/format.md alone, to check packs in tests.

It reads a whole pack or sidecar, checks every checksum and every relation that the page
promises, and returns the tree. For anything else, it raises AssertionError with the fault.
"""

from __future__ import annotations

import stat
import struct
from dataclasses import dataclass, field
from typing import NamedTuple

from crc32c import crc32c

TRAILER_SIZE = 256
BLOCK_SIZE = 64 << 10
CHUNK_SIZE = 1 << 20
NO_FILE = 0xFFFFFFFF
UNKNOWN_MTIME = -(1 << 63)


class ShardNumber(NamedTuple):
    set_id: bytes
    number: int
    count: int


class IndexEntry(NamedTuple):
    mode: int  # type and permission bits
    mtime_ns: int
    record: int | None = None  # files only
    target: bytes | None = None  # links only


@dataclass
class DecodedIndex:
    size: int = 0
    record_count: int = 0
    pack_size: int = 0
    pack_mtime_ns: int = 0
    pack_header_crc: int = 0
    paths: dict[bytes, IndexEntry] = field(default_factory=dict)  # b"": the root
    slots: list[bytes] = field(default_factory=list)  # the path of each
    chunks: dict[int, list[int]] = field(default_factory=dict)  # by record number
    header: list[int] = field(default_factory=list)
    shard: ShardNumber | None = None


def decode(file: bytes) -> DecodedIndex:
    """Return the index at the end of `file`."""
    return _Decoder(file).decode()


def pack_records(pack: bytes) -> list[bytes]:
    """Return the records of an FFRecord file."""
    (count,) = struct.unpack_from("<q", pack, 4)
    offsets = [*struct.unpack_from(f"<{count}q", pack, 12 + 4 * count), len(pack)]
    return [pack[offsets[i] : offsets[i + 1]] for i in range(count)]


def check_pack(pack: bytes) -> DecodedIndex:
    """Decode the index in `pack` and compare it with the records before it."""
    index = decode(pack)
    records = pack_records(pack)
    begin = len(pack) - index.size
    assert begin % 4096 == 0
    assert begin >= len(pack) - len(records[-1]) + len(b"piouhjgbr")
    assert (index.pack_size, index.pack_mtime_ns, index.pack_header_crc) == (len(pack), 0, 0)
    check_records(index, pack)
    return index


def check_records(index: DecodedIndex, pack: bytes, with_chunks: bool = True) -> None:
    """Compare an index, in the pack or beside it, with the pack's header and records."""
    records = pack_records(pack)
    assert index.record_count == len(records)
    header = bytearray(pack[: 12 + 12 * len(records)])
    header[:4] = bytes(4)
    header[12 + 4 * (len(records) - 1) : 12 + 4 * len(records)] = bytes(4)
    assert index.header == _checksums(bytes(header), BLOCK_SIZE)
    large = {
        number: _checksums(record, CHUNK_SIZE)
        for number, record in enumerate(records[:-1])
        if len(record) > CHUNK_SIZE
    }
    assert index.chunks == (large if with_chunks else {})
    shown = {entry.record for entry in index.paths.values()} - {None}
    assert all(record is not None and record < len(records) - 1 for record in shown)


def _checksums(data: bytes, size: int) -> list[int]:
    return [crc32c(data[at : at + size]) for at in range(0, len(data), size)]


class _Decoder:
    def __init__(self, file: bytes) -> None:
        trailer = file[-TRAILER_SIZE:]
        assert len(trailer) == TRAILER_SIZE, "no room for a trailer"
        assert crc32c(trailer[:0xFC]) == _u32(trailer, 0xFC), "trailer"
        assert trailer[:8] == b"ffrfsidx"
        assert (_u32(trailer, 0x08), _u32(trailer, 0x0C)) == (1, 0), "version, flags"
        assert not any(trailer[0xD8:0xFC])
        self._trailer = trailer
        self._index = file[len(file) - _u64(trailer, 0x10) :]
        checked_size = _u64(trailer, 0x18)
        assert checked_size % 8 == 0
        self._checked = self._index[:checked_size]
        self._check_blocks()
        self._sections = self._cut()

    def _check_blocks(self) -> None:
        checksums = _checksums(self._checked, BLOCK_SIZE)
        stored = self._index[len(self._checked) : -TRAILER_SIZE]
        expected = struct.pack(f"<{len(checksums)}I", *checksums)
        assert stored == expected + bytes(-len(expected) % 8), "block checksums"
        assert crc32c(expected) == _u32(self._trailer, 0x3C)

    def _cut(self) -> list[bytes]:
        sections, end = [], 0
        for number in range(9):
            offset, size = struct.unpack_from("<QQ", self._trailer, 0x40 + 16 * number)
            assert offset == end, f"section {number} begins at {offset}"
            sections.append(self._checked[offset : offset + size])
            assert len(sections[-1]) == size
            end = offset + size + -size % 8
            assert not any(self._checked[offset + size : end])
        assert end == len(self._checked)
        return sections

    def decode(self) -> DecodedIndex:
        index = DecodedIndex(
            size=len(self._index),
            record_count=_u64(self._trailer, 0x20),
            pack_size=_u64(self._trailer, 0x28),
            pack_mtime_ns=struct.unpack_from("<q", self._trailer, 0x30)[0],
            pack_header_crc=_u32(self._trailer, 0x38),
            header=_u32s(self._sections[7]),
        )
        self._walk(index)
        self._check_files(index)
        self._read_chunks(index)
        if self._sections[8]:
            set_id, number, count, zero = struct.unpack("<16sIIQ", self._sections[8])
            assert zero == 0 and number < count
            index.shard = ShardNumber(set_id, number, count)
        return index

    def _walk(self, index: DecodedIndex) -> None:
        inodes = list(struct.iter_unpack("<QQqIHH", self._sections[0]))
        directories = list(struct.iter_unpack("<6I", self._sections[1]))
        names, targets = self._sections[2], self._sections[3]
        index.slots = [b""]
        index.paths[b""] = IndexEntry(inodes[0][4], inodes[0][2])
        assert stat.S_ISDIR(inodes[0][4])
        assert (inodes[0][0], inodes[0][1], inodes[0][3], inodes[0][5]) == (0, 0, 0, 0)
        number = link_count = 0
        seen = 1  # directories so far
        while number < len(directories):
            slot, first, count, first_inner, inner_count, zero = directories[number]
            assert inodes[slot][1] == number and zero == 0
            assert (first, first_inner) == (len(index.slots), seen), "breadth-first"
            before = b""
            for child in range(first, first + count):
                name_at, value, mtime_ns, parent, mode, name_size = inodes[child]
                name = names[name_at : name_at + name_size]
                assert len(name) == name_size and parent == slot
                assert name > before, "sorted"
                before = name
                path = index.slots[slot] + b"/" + name if slot else name
                index.slots.append(path)
                record = target = None
                if stat.S_ISREG(mode):
                    record = value
                elif stat.S_ISLNK(mode):
                    size = _u32(targets, value)
                    target = targets[value + 4 : value + 4 + size]
                    assert len(target) == size
                    link_count += 1
                else:
                    assert stat.S_ISDIR(mode) and value == seen
                    seen += 1
                index.paths[path] = IndexEntry(mode, mtime_ns, record, target)
            assert seen == first_inner + inner_count
            number += 1
        assert (len(index.slots), seen) == (len(inodes), len(directories))
        assert link_count == _u64(self._trailer, 0xD0)

    def _check_files(self, index: DecodedIndex) -> None:
        files = [NO_FILE] * index.record_count
        for slot in reversed(range(len(index.slots))):
            record = index.paths[index.slots[slot]].record
            if record is not None:
                files[record] = slot
        assert _u32s(self._sections[4]) == files

    def _read_chunks(self, index: DecodedIndex) -> None:
        chunks = _u32s(self._sections[6])
        chunked = list(struct.iter_unpack("<QQ", self._sections[5]))
        assert chunked == sorted(chunked)
        assert [position for _, position in chunked[:1]] == ([0] if chunks else [])
        for (record, position), following in zip(chunked, [*chunked[1:], None], strict=False):
            index.chunks[record] = chunks[position : following[1] if following else None]


def _u32(data: bytes, offset: int) -> int:
    value: int = struct.unpack_from("<I", data, offset)[0]
    return value


def _u64(data: bytes, offset: int) -> int:
    value: int = struct.unpack_from("<Q", data, offset)[0]
    return value


def _u32s(data: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(data) // 4}I", data))
