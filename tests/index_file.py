"""A small writer of mapped indexes for tests: independent of ffrfs, and able to lie.

A tree is {name: content | Link | {...}}, names and contents in bytes. `Index` holds the
sections as lists of integers and bytes. A test may spoil them before encode() computes the
checksums, so that a lie has correct checksums, too. docs/format.md describes the format;
tests/index_format.py reads it.
"""

from __future__ import annotations

import collections
import pickle
import stat
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crc32c import crc32c

INDEX_MAGIC = b"piouhjgbr"
BLOCK_SIZE = 1 << 16
CHUNK_SIZE = 1 << 20
NO_FILE = 0xFFFFFFFF
SECTION_NAMES = (
    "inodes",
    "directories",
    "names",
    "targets",
    "files",
    "chunked",
    "chunks",
    "header",
    "set",
)
TRAILER_SIZE = 256


class Link(bytes):
    """The target of a symbolic link."""


Tree = Mapping[bytes, "bytes | Link | Tree"]


@dataclass
class Inode:
    name_offset: int = 0
    value: int = 0
    mtime_ns: int = 1_700_000_000_123_456_789
    parent: int = 0
    mode: int = 0
    name_size: int = 0

    def encode(self) -> bytes:
        return struct.pack(
            "<QQqIHH",
            self.name_offset,
            self.value,
            self.mtime_ns,
            self.parent,
            self.mode,
            self.name_size,
        )


@dataclass
class Directory:
    slot: int = 0
    first_child: int = 0
    entry_count: int = 0
    first_subdirectory: int = 0
    subdirectory_count: int = 0
    zero: int = 0

    def encode(self) -> bytes:
        return struct.pack(
            "<6I",
            self.slot,
            self.first_child,
            self.entry_count,
            self.first_subdirectory,
            self.subdirectory_count,
            self.zero,
        )


@dataclass
class Index:
    """The sections; then values that encode() computes, unless a test sets false ones."""

    inodes: list[Inode] = field(default_factory=list)
    directories: list[Directory] = field(default_factory=list)
    names: bytes = b""
    targets: bytes = b""
    files: list[int] = field(default_factory=list)
    chunked: list[tuple[int, int]] = field(default_factory=list)
    chunks: list[int] = field(default_factory=list)
    header: list[int] = field(default_factory=list)
    set: bytes = b""
    trailer: dict[str, int] = field(default_factory=dict)
    places: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    spoil_bytes: Callable[[bytearray], None] | None = None

    def sections(self) -> list[bytes]:
        return [
            b"".join(inode.encode() for inode in self.inodes),
            b"".join(directory.encode() for directory in self.directories),
            self.names,
            self.targets,
            struct.pack(f"<{len(self.files)}I", *self.files),
            b"".join(struct.pack("<QQ", *entry) for entry in self.chunked),
            struct.pack(f"<{len(self.chunks)}I", *self.chunks),
            struct.pack(f"<{len(self.header)}I", *self.header),
            self.set,
        ]

    def encode(self, record_count: int, pack: Identity) -> bytes:
        checked, places = bytearray(), []
        for name, section in zip(SECTION_NAMES, self.sections(), strict=True):
            offset, size = self.places.get(name, (None, None))
            places += [len(checked) if offset is None else offset]
            places += [len(section) if size is None else size]
            checked += section + bytes(-len(section) % 8)
        checksums = b"".join(
            struct.pack("<I", crc32c(bytes(checked[at : at + BLOCK_SIZE])))
            for at in range(0, len(checked), BLOCK_SIZE)
        )
        padding = bytes(-len(checksums) % 8)
        index_size = len(checked) + len(checksums) + len(padding) + TRAILER_SIZE
        fields: dict[str, Any] = {
            "magic": int.from_bytes(b"ffrfsidx", "little"),
            "version": 1,
            "flags": 0,
            "index_size": index_size,
            "checked_size": len(checked),
            "record_count": record_count,
            "pack_size": pack.size_before + index_size if pack.size is None else pack.size,
            "pack_mtime_ns": pack.mtime_ns,
            "pack_header_crc": pack.header_crc,
            "checksums_crc": crc32c(checksums),
            "link_count": sum(stat.S_ISLNK(inode.mode) for inode in self.inodes),
            "zero": 0,
        } | self.trailer
        trailer = struct.pack("<Q2I4Qq2I", *list(fields.values())[:10])
        trailer += struct.pack("<18Q", *places)
        trailer += struct.pack("<Q", fields["link_count"])
        trailer += fields["zero"].to_bytes(36, "little")
        encoded = bytearray(checked + checksums + padding + trailer)
        encoded += struct.pack("<I", fields.get("crc", crc32c(trailer)))
        if self.spoil_bytes is not None:
            self.spoil_bytes(encoded)
        return bytes(encoded)


@dataclass
class Identity:
    """The pack of an index. `size` is None if the index is in this pack, and not in a sidecar."""

    size: int | None = None
    mtime_ns: int = 0
    header_crc: int = 0
    size_before: int = 0  # where in the pack the index begins


@dataclass
class Walked:
    """A tree, walked breadth-first as in the index, and its records in that order."""

    index: Index
    records: list[bytes]
    pickled: bytes  # the index in the reference's format: without links


def walk(tree: Tree) -> Walked:
    index, records = Index(), list[bytes]()
    index.inodes.append(Inode(mode=stat.S_IFDIR | 0o755))
    index.directories.append(Directory())
    # (slot, its folder, the folder in the reference's index)
    root: collections.OrderedDict[str, Any] = collections.OrderedDict()
    waiting = collections.deque([(0, tree, root)])
    while waiting:
        slot, folder, pickled = waiting.popleft()
        directory = index.directories[index.inodes[slot].value]
        directory.slot, directory.first_child = slot, len(index.inodes)
        directory.entry_count = len(folder)
        directory.first_subdirectory = len(index.directories)
        for name in sorted(folder):
            entry = folder[name]
            inode = Inode(name_offset=len(index.names), parent=slot, name_size=len(name))
            index.names += name
            if isinstance(entry, Link):
                inode.mode, inode.value = stat.S_IFLNK | 0o777, len(index.targets)
                index.targets += struct.pack("<I", len(entry)) + entry
            elif isinstance(entry, bytes):
                inode.mode, inode.value = stat.S_IFREG | 0o644, len(records)
                pickled[name.decode()] = len(records)
                index.files.append(len(index.inodes))
                records.append(entry)
            else:
                inode.mode, inode.value = stat.S_IFDIR | 0o755, len(index.directories)
                inner: collections.OrderedDict[str, Any] = collections.OrderedDict()
                pickled[name.decode()] = inner
                waiting.append((len(index.inodes), entry, inner))
                index.directories.append(Directory())
                directory.subdirectory_count += 1
            index.inodes.append(inode)
    index.files.append(NO_FILE)  # the index's own record
    for number, record in enumerate(records):
        if len(record) > CHUNK_SIZE:
            index.chunked.append((number, len(index.chunks)))
            pieces = range(0, len(record), CHUNK_SIZE)
            index.chunks += [crc32c(record[at : at + CHUNK_SIZE]) for at in pieces]
    return Walked(index, records, INDEX_MAGIC + pickle.dumps(root))


Spoil = Callable[[Index], object]


def encode_header(records: list[bytes]) -> bytes:
    """Return the header of an FFRecord file: checksum, n, checksums, offsets."""
    offset, offsets = 12 + 12 * len(records), []
    for record in records:
        offsets.append(offset)
        offset += len(record)
    body = struct.pack("<q", len(records))
    body += struct.pack(f"<{len(records)}I", *map(zlib.crc32, records))
    body += struct.pack(f"<{len(records)}q", *offsets)
    return struct.pack("<I", zlib.crc32(body)) + body


def header_checksums(header: bytes) -> list[int]:
    """Return section `header`: the fields that depend on the index count as zero."""
    (count,) = struct.unpack_from("<q", header, 4)
    masked = bytearray(header)
    masked[:4] = bytes(4)
    masked[12 + 4 * (count - 1) : 12 + 4 * count] = bytes(4)
    pieces = range(0, len(masked), BLOCK_SIZE)
    return [crc32c(bytes(masked[at : at + BLOCK_SIZE])) for at in pieces]


def indexed_pack(tree: Tree, spoil: Spoil | None = None) -> bytes:
    """Return a pack with the index in its last record."""
    walked = walk(tree)
    header_size = 12 + 12 * (len(walked.records) + 1)
    before = header_size + sum(map(len, walked.records)) + len(walked.pickled)
    last = walked.pickled + bytes(-before % 4096)
    index = walked.index
    index.header = header_checksums(encode_header([*walked.records, b""]))
    if spoil is not None:
        spoil(index)
    begin = before - len(walked.pickled) + len(last)
    last += index.encode(len(walked.records) + 1, Identity(size_before=begin))
    records = [*walked.records, last]
    return encode_header(records) + b"".join(records)


def chained_pack(depth: int) -> bytes:
    """Return a pack of nested directories with the longest names, deeper than any writer's."""

    def chain(index: Index) -> None:
        index.names = b"n" * 255
        index.inodes += [
            Inode(0, slot, 0, slot - 1, stat.S_IFDIR | 0o755, 255) for slot in range(1, depth + 1)
        ]
        index.directories = [Directory(slot, slot + 1, 1, slot + 1, 1) for slot in range(depth)]
        index.directories.append(Directory(depth, depth + 1))

    return indexed_pack({}, chain)


def plain_pack(tree: Tree) -> bytes:
    """Return a pack as the reference writes it."""
    walked = walk(tree)
    records = [*walked.records, walked.pickled]
    return encode_header(records) + b"".join(records)


def write_sidecar(pack: Path, tree: Tree, spoil: Spoil | None = None) -> Path:
    """Write and return the sidecar of `pack`, which is a plain_pack() of `tree`."""
    walked = walk(tree)
    file, index = pack.read_bytes(), walked.index
    index.header = header_checksums(file[: 12 + 12 * (len(walked.records) + 1)])
    if spoil is not None:
        spoil(index)
    (header_crc,) = struct.unpack_from("<I", file)
    identity = Identity(len(file), pack.stat().st_mtime_ns, header_crc)
    sidecar = pack.with_name(pack.name + ".idx")
    sidecar.write_bytes(index.encode(len(walked.records) + 1, identity))
    return sidecar
