"""Collections: a data set as numbered items, files of packs or Examples of TFRecord files.

An item has a number, its record's, by which pages turn without a scan, and a key that names it
in URLs: a file's path, or an Example's number. Bytes are verified by the core at each read.

Not here: choosing and sorting (choice.py). Concurrency: immutable; any thread.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from typing import Literal, NamedTuple, Protocol

from ffrfs.errors import PathNotFoundError
from ffrfs.folder.tree import PackTree
from ffrfs.tfrecord.framing import FRAME_SIZE
from ffrfs.tfrecord.reader import TFRecordReader

_GAP_MAX = 10_000
Kind = Literal["folder", "link", "file", "example"]


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of the gallery. `size`: bytes; of a folder 0."""

    key: str
    name: str
    kind: Kind
    size: int


@dataclass(frozen=True, slots=True)
class Facts:
    """Where an item is stored. `checksum`: CRC of the whole record; None if it is in a part."""

    pack: str
    record: int  # within `pack`
    offset: int  # bytes from the begin of `pack`
    size: int  # bytes
    checksum: str | None


class Place(NamedTuple):
    """`key`: of the record's item; None: it is an index. `record`: within `pack`, as `offset`."""

    key: str | None
    pack: str
    record: int
    offset: int


class Collection(Protocol):
    name: str
    count: int  # item numbers are below it; some numbers of packs are indexes, not items

    @property
    def kind(self) -> Literal["files", "examples"]: ...

    def numbered(self, first: int, count: int) -> list[Item]:
        """Return the items with these numbers, in their order."""

    def folder(self, path: str, first: int, count: int) -> tuple[list[Item], bool]:
        """Return entries of a directory by position, and whether there are more."""

    def item(self, key: str) -> Item:
        """Return the item with that key. Raises PathNotFoundError."""

    def neighbours(self, key: str) -> tuple[str | None, str | None]:
        """Return the keys of the items before and after it, by number."""

    def facts(self, key: str) -> Facts: ...

    def place(self, number: int) -> Place:
        """Return the place of a record."""

    def size_before(self, number: int) -> int:
        """Return the bytes of all records before one, or of all, for the number of all."""

    def verify(self, first: int, count: int) -> list[tuple[int, Exception]]:
        """Read records; return the numbers and errors of those that are damaged."""

    def read(self, key: str, offset: int = 0, size: int | None = None) -> bytes:
        """Return verified bytes, fewer at the end. Raises ChecksumError naming the item."""

    def close(self) -> None: ...


class FileCollection:
    """The files of a pack, of several as one tree, or the records of a plain FFRecord file."""

    kind: Literal["files"] = "files"

    def __init__(self, tree: PackTree) -> None:
        self.tree = tree
        self.name = tree.file
        self._volume = tree.volume
        self.count = self._volume.record_count
        self._packs = self._volume.packs
        self._ends = list(accumulate(pack.record_count for pack in self._packs))

    def numbered(self, first: int, count: int) -> list[Item]:
        numbers = range(max(first, 0), min(first + count, self.count))
        inos = (self._volume.file_of(number) for number in numbers)
        return [self.by_ino(ino) for ino in inos if ino]

    def by_ino(self, ino: int) -> Item:
        attributes = self._volume.attributes(ino)
        assert attributes is not None
        path = self.tree.path(ino)
        return _file_item(path, attributes.mode, attributes.size)

    def folder(self, path: str, first: int, count: int) -> tuple[list[Item], bool]:
        found = self._volume.list(self.tree.folder_ino(path), first, count + 1)
        prefix = f"{path.strip('/')}/" if path.strip("/") else ""
        items = [
            _file_item(prefix + os.fsdecode(name), attributes.mode, attributes.size)
            for name, attributes in found[:count]
        ]
        return items, len(found) > count

    def item(self, key: str) -> Item:
        attributes = self.tree.attributes(key)
        return _file_item(key, attributes.mode, attributes.size)

    def neighbours(self, key: str) -> tuple[str | None, str | None]:
        number = self._number(key)
        return self._nearest(range(number - 1, -1, -1)), self._nearest(
            range(number + 1, self.count)
        )

    def _nearest(self, numbers: range) -> str | None:
        # Only a hostile pack has so many records side by side that no file has.
        inos = (self._volume.file_of(number) for number in numbers[:_GAP_MAX])
        ino = next((ino for ino in inos if ino), 0)
        return self.tree.path(ino) if ino else None

    def _number(self, key: str) -> int:
        record = self._volume.record(self.tree.file_ino(key))
        assert record is not None
        return record[0]

    def facts(self, key: str) -> Facts:
        ino = self.tree.file_ino(key)
        attributes = self._volume.attributes(ino)
        record = self._volume.record(ino)
        assert attributes is not None and record is not None
        number, checksum = record
        _, pack, within, offset = self.place(number)
        return Facts(
            pack=pack,
            record=within,
            offset=offset,
            size=attributes.size,
            checksum=None if checksum is None else f"{checksum:08x}",
        )

    def place(self, number: int) -> Place:
        shard, within = _within(self._ends, number)
        ino = self._volume.file_of(number)
        return Place(
            self.tree.path(ino) if ino else None,
            os.fsdecode(self._volume.paths[shard]),
            within,
            self._packs[shard].offset(within),
        )

    @cached_property
    def _sizes_before(self) -> list[int]:
        sizes = (pack.offset(pack.record_count) - pack.offset(0) for pack in self._packs)
        return [0, *accumulate(sizes)]

    def size_before(self, number: int) -> int:
        shard, within = _within(self._ends, number)
        if shard == len(self._packs):
            return self._sizes_before[-1]
        pack = self._packs[shard]
        return self._sizes_before[shard] + pack.offset(within) - pack.offset(0)

    def verify(self, first: int, count: int) -> list[tuple[int, Exception]]:
        return self._volume.verify(first, count)

    def read(self, key: str, offset: int = 0, size: int | None = None) -> bytes:
        ino = self.tree.file_ino(key)
        if size is None:
            return self.tree.read_whole(ino)
        return bytes(self.tree.read_at(ino, offset, size))

    def close(self) -> None:
        self.tree.close()


class ExampleCollection:
    """The records of TFRecord files. `name`: of the data set, in titles."""

    kind: Literal["examples"] = "examples"

    def __init__(self, name: str, files: Sequence[str]) -> None:
        self.name = name
        self.reader = TFRecordReader(list(files))
        self.count = self.reader.n
        self._ends = list(accumulate(self.reader.counts))
        self._offsets = cache(self.reader.offsets)  # 8 bytes a record, of shards that were seen

    def numbered(self, first: int, count: int) -> list[Item]:
        return list(self._items(range(max(first, 0), min(first + count, self.count))))

    def _items(self, numbers: range) -> Iterator[Item]:
        for number in numbers:
            yield Item(str(number), f"record {number:,}", "example", self._place(number)[3])

    def folder(self, path: str, first: int, count: int) -> tuple[list[Item], bool]:
        if path.strip("/"):
            raise PathNotFoundError(f"{self.name}: TFRecord files have no directories")
        return self.numbered(first, count), first + count < self.count

    def item(self, key: str) -> Item:
        number = self._number(key)
        return next(self._items(range(number, number + 1)))

    def _number(self, key: str) -> int:
        if not (key.isascii() and key.isdigit() and len(key) < 20 and int(key) < self.count):
            raise PathNotFoundError(f"{self.name}: has no record {key[:20]}")
        return int(key)

    def neighbours(self, key: str) -> tuple[str | None, str | None]:
        number = self._number(key)
        return (
            str(number - 1) if number else None,
            str(number + 1) if number + 1 < self.count else None,
        )

    def _place(self, number: int) -> tuple[int, int, int, int]:
        """Return the shard, the record within it, its offset and its size."""
        shard, within = _within(self._ends, number)
        offsets = self._offsets(shard)
        size = int(offsets[within + 1] - offsets[within]) - FRAME_SIZE
        return shard, within, int(offsets[within]), size

    def facts(self, key: str) -> Facts:
        shard, within, offset, size = self._place(self._number(key))
        return Facts(self.reader.paths[shard], within, offset, size, None)

    def place(self, number: int) -> Place:
        shard, within, offset, _ = self._place(number)
        return Place(str(number), self.reader.paths[shard], within, offset)

    @cached_property
    def _sizes_before(self) -> list[int]:
        shards = map(self._offsets, range(len(self.reader.paths)))
        return [0, *accumulate(int(offsets[-1]) for offsets in shards)]

    def size_before(self, number: int) -> int:
        shard, within = _within(self._ends, number)
        if shard == len(self.reader.paths):
            return self._sizes_before[-1]
        return self._sizes_before[shard] + int(self._offsets(shard)[within])

    def verify(self, first: int, count: int) -> list[tuple[int, Exception]]:
        return self.reader.verify(first, count)

    def read(self, key: str, offset: int = 0, size: int | None = None) -> bytes:
        whole = self.reader.read_one(self._number(key))
        return whole if size is None else whole[offset : offset + size]

    def close(self) -> None:
        self.reader.close()


def _within(ends: Sequence[int], number: int) -> tuple[int, int]:
    """Return the shard that has a record, and the record's number within it."""
    shard = bisect_right(ends, number)
    return shard, number - (ends[shard - 1] if shard else 0)


def _file_item(path: str, mode: int, size: int) -> Item:
    kind: Kind = "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "file"
    return Item(path, path.rsplit("/", 1)[-1], kind, 0 if kind == "folder" else size)
