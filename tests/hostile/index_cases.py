"""Mapped indexes that lie, each in one place: a sound index, and the changes made to it.

CASES names them by family. A case spoils an index (index_file.Index) before its checksums
are made, so that these are right, except in the family "damage".
"""

from __future__ import annotations

import stat
import struct
from collections.abc import Callable, Iterator
from dataclasses import fields

from tests.index_file import (
    NO_FILE,
    SECTION_NAMES,
    TRAILER_SIZE,
    Directory,
    Index,
    Inode,
    Link,
    Tree,
)

Spoil = Callable[[Index], object]

# Slots: 0 the root; 1 a, 2 b, 3 d, 4 e, 5 link, 6 z; in b: 7 c, 8 link, 9 z; in e: 10 to 19;
# in c: 20 deep, 21 empty.
TREE: Tree = {
    b"a": b"alpha" * 10,
    b"b": {b"c": {b"deep": b"d" * 1000, b"empty": b""}, b"link": Link(b"c/deep"), b"z": b"zz"},
    b"d": {},
    b"e": {b"f%02d" % i: b"%d" % i * 100 for i in range(10)},
    b"link": Link(b"b/z"),
    b"z": b"last",
}
ROOT, FILE, FOLDER, EMPTY_FOLDER, LINK, INNER_FOLDER, INNER_FILE = 0, 1, 2, 3, 5, 7, 20
SLOTS = 22
RECORDS = 16  # 15 files and the index
FOLDERS = 5

# A tree with a record whose chunks have checksums of their own.
LARGE_TREE: Tree = {b"large": bytes(range(256)) * 4100 * 2, b"small": b"s"}

_U16, _U32, _U64 = (1 << 16) - 1, (1 << 32) - 1, (1 << 64) - 1

_INODE_VALUES = {
    "name_offset": [0, 1, 60, 500, 1 << 31, 1 << 48, 1 << 63, _U64 - 200, _U64],
    "value": [0, 1, 2, 4, 5, 14, 15, 16, 17, 21, 22, _U32, _U32 + 1, 1 << 63, _U64 - 3, _U64],
    "mtime_ns": [0, -1, 1 << 62, (1 << 63) - 1, -(1 << 63)],
    "parent": [0, 1, 2, 3, 4, 5, 7, 20, 21, 22, 1 << 31, _U32],
    "mode": [
        *(0, 0o777, 0o7777 | stat.S_IFREG, 0o7777 | stat.S_IFDIR, stat.S_IFLNK),
        *(stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK | 0o777, stat.S_IFCHR | 0o666),
        *(stat.S_IFBLK | 0o666, stat.S_IFIFO | 0o666, stat.S_IFSOCK | 0o666, _U16),
    ],
    "name_size": [0, 2, 255, 256, _U16],
}
_DIRECTORY_VALUES = [0, 1, 2, 4, 7, 20, 22, 23, 1 << 31, _U32]
_NUMBERS = [0, 1, 8, 1 << 16, _U32, 1 << 48, 1 << 63, _U64 - 7, _U64]


def inode_cases() -> Iterator[tuple[str, Spoil]]:
    for slot in (ROOT, FILE, FOLDER, EMPTY_FOLDER, LINK, INNER_FOLDER, INNER_FILE, SLOTS - 1):
        for of in fields(Inode):
            for value in _INODE_VALUES[of.name]:
                yield (
                    f"slot {slot}: {of.name} {value}",
                    lambda i, s=slot, n=of.name, v=value: setattr(i.inodes[s], n, v),
                )
    yield "no inodes", lambda i: i.inodes.clear()
    yield "only the root", lambda i: i.inodes.__delitem__(slice(1, None))
    yield "one inode too few", lambda i: i.inodes.pop()
    yield "one inode too many", lambda i: i.inodes.append(Inode())
    yield "inodes backwards", lambda i: i.inodes.reverse()


def directory_cases() -> Iterator[tuple[str, Spoil]]:
    for number in range(FOLDERS):
        for of in fields(Directory):
            for value in _DIRECTORY_VALUES:
                yield (
                    f"folder {number}: {of.name} {value}",
                    lambda i, k=number, n=of.name, v=value: setattr(i.directories[k], n, v),
                )
    yield "no folders", lambda i: i.directories.clear()
    yield "one folder too few", lambda i: i.directories.pop()
    yield "one folder too many", lambda i: i.directories.append(Directory())
    yield "more folders than inodes", lambda i: i.directories.extend([Directory()] * SLOTS)
    yield "folders backwards", lambda i: i.directories.reverse()


def loop_cases() -> Iterator[tuple[str, Spoil]]:
    def claim(index: Index, number: int, other: int) -> None:
        """Make a folder show another folder's entries."""
        mine, theirs = index.directories[number], index.directories[other]
        mine.first_child, mine.entry_count = theirs.first_child, theirs.entry_count

    def share_place(index: Index, slot: int, other: int) -> None:
        """Make two inodes share one directory."""
        index.inodes[slot].value = index.inodes[other].value

    def take_in(index: Index, number: int, slot: int) -> None:
        """Make a folder have a single entry, which has that folder as its parent."""
        directory = index.directories[number]
        directory.first_child, directory.entry_count = slot, 1
        index.inodes[slot].parent = directory.slot

    for number in range(FOLDERS):
        for other in range(FOLDERS):
            yield f"folder {number} claims {other}", lambda i, n=number, o=other: claim(i, n, o)
        for slot in (ROOT, FILE, FOLDER, EMPTY_FOLDER, INNER_FOLDER):
            yield f"folder {number} takes {slot}", lambda i, n=number, s=slot: take_in(i, n, s)
    for slot in (FOLDER, EMPTY_FOLDER, INNER_FOLDER):
        for other in (ROOT, FOLDER, EMPTY_FOLDER, INNER_FOLDER):
            yield f"{slot} is {other}", lambda i, s=slot, o=other: share_place(i, s, o)


def name_cases() -> Iterator[tuple[str, Spoil]]:
    def rename(index: Index, slot: int, name: bytes) -> None:
        index.inodes[slot].name_offset = len(index.names)
        index.inodes[slot].name_size = len(name)
        index.names += name

    names = [b"", b".", b"..", b"/", b"a/b", b"/etc", b"\0", b"a\0b", b"x" * 255, b"x" * 256]
    names += [b"../..", b"\xff", b"\n", b"b", b"z", b"link"]
    for slot in (ROOT, FILE, FOLDER, LINK, INNER_FILE, SLOTS - 1):
        for name in names:
            yield f"slot {slot}: named {name[:9]!r}", lambda i, s=slot, n=name: rename(i, s, n)
    yield "no names", lambda i: setattr(i, "names", b"")
    yield "names of zeros", lambda i: setattr(i, "names", bytes(len(i.names)))
    yield "names of slashes", lambda i: setattr(i, "names", b"/" * len(i.names))


def target_cases() -> Iterator[tuple[str, Spoil]]:
    def lead_to(index: Index, target: bytes, size: int | None = None) -> None:
        index.inodes[LINK].value = len(index.targets)
        index.targets += struct.pack("<I", len(target) if size is None else size) + target

    for target in (b"", b"\0", b"a\0", b"t" * 4095, b"t" * 4096, b"t" * 65536, b"link", b"/"):
        yield f"to {target[:5]!r}, {len(target)}", lambda i, t=target: lead_to(i, t)
    for size in (0, 4, 4095, 4096, 1 << 31, _U32 - 3, _U32):
        yield f"{size} bytes, it says", lambda i, s=size: lead_to(i, b"abc", s)
    yield "no targets", lambda i: setattr(i, "targets", b"")
    yield "targets cut off", lambda i: setattr(i, "targets", i.targets[:3])


def record_cases() -> Iterator[tuple[str, Spoil]]:
    for record in (0, 5, RECORDS - 1):
        for slot in (0, 1, 2, 5, 20, 21, 22, 1 << 31, _U32 - 1, NO_FILE):
            yield (
                f"record {record} is slot {slot}",
                lambda i, r=record, s=slot: i.files.__setitem__(r, s),
            )
    yield "no files", lambda i: i.files.clear()
    yield "one file too few", lambda i: i.files.pop()
    yield "one file too many", lambda i: i.files.append(NO_FILE)


def header_cases() -> Iterator[tuple[str, Spoil]]:
    yield "wrong checksum", lambda i: i.header.__setitem__(0, i.header[0] ^ 1)
    yield "no checksum", lambda i: i.header.clear()
    yield "one checksum too many", lambda i: i.header.append(0)


def set_cases() -> Iterator[tuple[str, Spoil]]:
    sound = bytes(range(16)) + struct.pack("<IIQ", 0, 1, 0)
    for size in (1, 16, 31, 33, 64):
        yield f"{size} bytes", lambda i, s=size: setattr(i, "set", (sound * 2)[:s])
    for number, count in ((0, 0), (1, 1), (5, 1), (_U32, 1), (0, _U32), (_U32, _U32)):
        entry = bytes(16) + struct.pack("<IIQ", number, count, 0)
        yield f"shard {number} of {count}", lambda i, e=entry: setattr(i, "set", e)
    spoiled = sound[:24] + struct.pack("<Q", 1)
    yield "no zero at the end", lambda i: setattr(i, "set", spoiled)


def trailer_cases() -> Iterator[tuple[str, Spoil]]:
    widths = {"version": 4, "flags": 4, "pack_header_crc": 4, "checksums_crc": 4, "crc": 4}
    names = ["magic", "index_size", "checked_size", "record_count", "pack_size", "link_count"]
    for name in (*names, *widths):
        for value in _NUMBERS:
            if value < 1 << 8 * widths.get(name, 8):
                yield f"{name} {value}", lambda i, n=name, v=value: i.trailer.update({n: v})
    for value in (-(1 << 63), -1, 0, 1, (1 << 63) - 1):
        yield f"pack_mtime_ns {value}", lambda i, v=value: i.trailer.update(pack_mtime_ns=v)
    for value in (1, 1 << 287):
        yield f"zero {value}", lambda i, v=value: i.trailer.update(zero=v)


def place_cases() -> Iterator[tuple[str, Spoil]]:
    for name in SECTION_NAMES:
        for value in (*_NUMBERS, 704, 4096):
            yield f"{name} at {value}", lambda i, n=name, v=value: i.places.update({n: (v, None)})
            yield (
                f"{name} of {value} bytes",
                lambda i, n=name, v=value: i.places.update({n: (None, v)}),
            )
        yield f"{name} over the first", lambda i, n=name: i.places.update({n: (0, 32)})
        yield f"{name} to the end", lambda i, n=name: i.places.update({n: (_U64 - 31, 32)})


def damage_cases() -> Iterator[tuple[str, Spoil]]:
    def flip(index: Index, offset: int) -> None:
        def spoil(encoded: bytearray) -> None:
            encoded[offset] ^= 1

        index.spoil_bytes = spoil

    for offset in (0, 30, 704, 900, -TRAILER_SIZE - 8, -TRAILER_SIZE, -200, -50, -4, -1):
        yield f"a bit at {offset}", lambda i, o=offset: flip(i, o)


def chunk_cases() -> Iterator[tuple[str, Spoil]]:
    """Yield cases for LARGE_TREE, whose record 0 has three chunks."""
    for record in (1, 2, 3, 1 << 32, _U64):
        yield f"of record {record}", lambda i, r=record: i.chunked.__setitem__(0, (r, 0))
    for first in (1, 3, 4, 1 << 32, 1 << 62, (1 << 64) // 4, _U64):
        yield f"from chunk {first}", lambda i, f=first: i.chunked.__setitem__(0, (0, f))
    for number in range(3):
        yield f"wrong in {number}", lambda i, n=number: i.chunks.__setitem__(n, i.chunks[n] ^ 1)
    yield "no chunks", lambda i: i.chunks.clear()
    yield "a chunk too few", lambda i: i.chunks.pop()
    yield "a record twice", lambda i: i.chunked.append((0, 0))
    yield "records fall", lambda i: i.chunked.insert(0, (1, 0))


CASES: dict[str, dict[str, Spoil]] = {
    "inodes": dict(inode_cases()),
    "folders": dict(directory_cases()),
    "loops": dict(loop_cases()),
    "names": dict(name_cases()),
    "targets": dict(target_cases()),
    "records": dict(record_cases()),
    "header": dict(header_cases()),
    "set": dict(set_cases()),
    "trailer": dict(trailer_cases()),
    "places": dict(place_cases()),
    "damage": dict(damage_cases()),
}
CHUNK_CASES = dict(chunk_cases())
