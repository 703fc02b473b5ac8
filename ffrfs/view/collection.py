"""Collections: a data set as numbered items, files of packs or Examples of TFRecord files.

An item has a number, its record's, by which pages turn without a scan, and a key that names it
in URLs: a file's path, or an Example's number. Bytes are verified by the core at each read.

Not here: choosing and sorting (choice.py). Concurrency: immutable; any thread.
"""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

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
    """The place of an item. `checksum`: CRC of the whole record; None if it is in a part."""

    pack: str
    record: int  # within `pack`
    offset: int  # bytes from the beginning of `pack`
    size: int  # bytes
    checksum: str | None


class Place(NamedTuple):
    """The place of a record. `key`: of its item; None: the record is an index.

    `record` and `offset` are those within `pack`.
    """

    key: str | None
    pack: str
    record: int
    offset: int


class Collection(ABC):
    """Items are the records of `files`; `counts`: of each. A pack's records may also be indexes."""

    kind: Literal["files", "examples"]

    def __init__(self, name: str, files: Sequence[str], counts: Iterable[int]) -> None:
        self.name = name
        self._files = files
        self._ends = list(accumulate(counts))
        self.count = self._ends[-1]

    @abstractmethod
    def by_number(self, number: int) -> Item | None:
        """Return the item of a record; None: the record is an index."""

    @abstractmethod
    def item(self, key: str) -> Item:
        """Return the item with that key. Raises PathNotFoundError."""

    @abstractmethod
    def folder(self, path: str, first: int, count: int) -> tuple[list[Item], bool]:
        """Return entries of a directory by position, and whether there are more."""

    @abstractmethod
    def facts(self, key: str) -> Facts: ...

    @abstractmethod
    def verify(self, first: int, count: int) -> list[tuple[int, Exception]]:
        """Read records; return the numbers and errors of those that are damaged."""

    @abstractmethod
    def read(self, key: str, offset: int = 0, size: int | None = None) -> bytes:
        """Return verified bytes, fewer at the end. Raises ChecksumError naming the item."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _key(self, number: int) -> str | None: ...

    @abstractmethod
    def _number(self, key: str) -> int: ...

    @abstractmethod
    def _offset(self, shard: int, within: int) -> int:
        """Return where a record of one of the files begins, or the last one ends."""

    def numbered(self, first: int, count: int) -> list[Item]:
        """Return the items with these numbers, in their order."""
        numbers = range(max(first, 0), min(first + count, self.count))
        return [item for item in map(self.by_number, numbers) if item]

    def neighbours(self, key: str) -> tuple[str | None, str | None]:
        """Return the keys of the items before and after it, by number."""
        number = self._number(key)
        return self._nearest(range(number - 1, -1, -1)), self._nearest(
            range(number + 1, self.count)
        )

    def _nearest(self, numbers: range) -> str | None:
        # Only a hostile pack has so many records side by side that no file has.
        keys = map(self._key, numbers[:_GAP_MAX])
        return next((key for key in keys if key is not None), None)

    def place(self, number: int) -> Place:
        """Return the place of a record."""
        shard, within = self._within(number)
        key, offset = self._key(number), self._offset(shard, within)
        return Place(key, self._files[shard], within, offset)

    def size_before(self, number: int) -> int:
        """Return the bytes of all records before one, or of all, for the number of all."""
        shard, within = self._within(number)
        if shard == len(self._files):
            return self._sizes_before[-1]
        return self._sizes_before[shard] + self._offset(shard, within) - self._offset(shard, 0)

    @cached_property
    def _sizes_before(self) -> list[int]:
        counts = (end - first for first, end in pairwise([0, *self._ends]))
        sizes = (self._offset(shard, n) - self._offset(shard, 0) for shard, n in enumerate(counts))
        return [0, *accumulate(sizes)]

    def _within(self, number: int) -> tuple[int, int]:
        """Return the file that has a record, and the record's number within it."""
        shard = bisect_right(self._ends, number)
        return shard, number - (self._ends[shard - 1] if shard else 0)


class FileCollection(Collection):
    """The files of a pack, of several as one tree, or the records of a plain FFRecord file."""

    kind = "files"

    def __init__(self, tree: PackTree) -> None:
        self.tree = tree
        self._volume = tree.volume
        self._packs = self._volume.packs
        files = [os.fsdecode(path) for path in self._volume.paths]
        super().__init__(tree.file, files, (pack.record_count for pack in self._packs))

    def by_number(self, number: int) -> Item | None:
        ino = self._volume.file_of(number)
        return self.by_ino(ino) if ino else None

    def by_ino(self, ino: int) -> Item:
        attributes = self._volume.attributes(ino)
        assert attributes is not None
        path = self.tree.path(ino)
        return _file_item(path, attributes.mode, attributes.size)

    def item(self, key: str) -> Item:
        attributes = self.tree.attributes(key)
        return _file_item(key, attributes.mode, attributes.size)

    def folder(self, path: str, first: int, count: int) -> tuple[list[Item], bool]:
        found = self._volume.list(self.tree.folder_ino(path), first, count + 1)
        prefix = f"{path.strip('/')}/" if path.strip("/") else ""
        items = [
            _file_item(prefix + os.fsdecode(name), attributes.mode, attributes.size)
            for name, attributes in found[:count]
        ]
        return items, len(found) > count

    def facts(self, key: str) -> Facts:
        ino = self.tree.file_ino(key)
        attributes = self._volume.attributes(ino)
        record = self._volume.record(ino)
        assert attributes is not None and record is not None
        number, checksum = record
        _, pack, within, offset = self.place(number)
        shown = None if checksum is None else f"{checksum:08x}"
        return Facts(pack, within, offset, attributes.size, shown)

    def verify(self, first: int, count: int) -> list[tuple[int, Exception]]:
        return self._volume.verify(first, count)

    def read(self, key: str, offset: int = 0, size: int | None = None) -> bytes:
        ino = self.tree.file_ino(key)
        if size is None:
            return self.tree.read_whole(ino)
        return bytes(self.tree.read_at(ino, offset, size))

    def close(self) -> None:
        self.tree.close()

    def _key(self, number: int) -> str | None:
        ino = self._volume.file_of(number)
        return self.tree.path(ino) if ino else None

    def _number(self, key: str) -> int:
        record = self._volume.record(self.tree.file_ino(key))
        assert record is not None
        return record[0]

    def _offset(self, shard: int, within: int) -> int:
        return self._packs[shard].offset(within)


class ExampleCollection(Collection):
    """The records of TFRecord files. `name`: of the data set, in titles."""

    kind = "examples"

    def __init__(self, name: str, files: Sequence[str]) -> None:
        self.reader = TFRecordReader(list(files))
        self._offsets = cache(self.reader.offsets)  # 8 bytes a record, of shards that were seen
        super().__init__(name, self.reader.paths, self.reader.counts)

    def by_number(self, number: int) -> Item:
        key = str(number)
        return Item(key, f"record {number:,}", "example", self.facts(key).size)

    def item(self, key: str) -> Item:
        return self.by_number(self._number(key))

    def folder(self, path: str, first: int, count: int) -> tuple[list[Item], bool]:
        if path.strip("/"):
            raise PathNotFoundError(f"{self.name}: TFRecord files have no directories")
        return self.numbered(first, count), first + count < self.count

    def facts(self, key: str) -> Facts:
        shard, within = self._within(self._number(key))
        offset = self._offset(shard, within)
        size = self._offset(shard, within + 1) - offset - FRAME_SIZE
        return Facts(self._files[shard], within, offset, size, None)

    def verify(self, first: int, count: int) -> list[tuple[int, Exception]]:
        return self.reader.verify(first, count)

    def read(self, key: str, offset: int = 0, size: int | None = None) -> bytes:
        whole = self.reader.read_one(self._number(key))
        return whole if size is None else whole[offset : offset + size]

    def close(self) -> None:
        self.reader.close()

    def _key(self, number: int) -> str:
        return str(number)

    def _number(self, key: str) -> int:
        if not (key.isascii() and key.isdigit() and len(key) < 20 and int(key) < self.count):
            raise PathNotFoundError(f"{self.name}: has no record {key[:20]}")
        return int(key)

    def _offset(self, shard: int, within: int) -> int:
        return int(self._offsets(shard)[within])


def _file_item(path: str, mode: int, size: int) -> Item:
    kind: Kind = "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "file"
    return Item(path, path.rsplit("/", 1)[-1], kind, 0 if kind == "folder" else size)
