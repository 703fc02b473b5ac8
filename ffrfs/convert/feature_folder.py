"""A TFRecord data set as a pack of features: the tree that a mount of it shows.

The tree has a directory per record with a file per feature, example.json and record.bin. Not here:
making that tree (native core), one file per record (target.py).

Memory: the names of all files, as for any directory that is packed; a part of a large file, and
its record. Every record is read twice: for its names, and for its bytes.
"""

from __future__ import annotations

import os
from array import array
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ffrfs._native import EntryList
from ffrfs.convert.source import OnError, Record, SizedItem, in_batches
from ffrfs.convert.target import record_names
from ffrfs.errors import ChecksumError
from ffrfs.folder.tree import Entry, PackTree
from ffrfs.packing.pack_file import writing
from ffrfs.packing.sources.contents import UNKNOWN_TIME_NS

if TYPE_CHECKING:
    from ffrfs._native import Slice


class LargeFile:
    """A file that is not held in memory, but read in pieces while it is written."""

    def __init__(self, pack: PackTree, ino: int, size: int) -> None:
        self._pack = pack
        self._ino = ino
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Slice | bytes]:
        return self._pack.pieces(self._ino)


class FeatureFolder:
    """The tree of `path`, a TFRecord file or a directory of them, walked by the constructor.

    A damaged record raises ChecksumError, or with "skip" is left out and counted, and
    the numbers of later records shrink.
    """

    def __init__(self, path: str, on_error: OnError) -> None:
        self.path = path
        self.record_count = self.skipped_count = self.size_bytes = 0
        self._on_error = on_error
        self._entries = EntryList()
        self._entries.describe_folder(0, 0, UNKNOWN_TIME_NS)
        self._inos = array("Q")  # inodes of the files, in the order of the pack
        self._sizes = array("Q")
        self._pack = PackTree(path, show_splits=False)
        try:
            self._walk()
        except BaseException:
            self.close()
            raise

    @property
    def file_count(self) -> int:
        return len(self._inos)

    def write(
        self, target: str, contents: Iterator[Record | LargeFile], *, force: bool = False
    ) -> None:
        """Write the values of `contents`, an iterator over contents(), as a pack."""
        with writing(target, self.file_count + 1, force=force) as writer:
            for content in contents:
                if isinstance(content, LargeFile):
                    writer.append_pieces(content)
                else:
                    writer.append(content)
            writer.append_index(self._entries)

    def contents(self) -> Iterator[Record | LargeFile]:
        items = map(SizedItem, self._inos, self._sizes)
        for batch in in_batches(items):
            if len(batch) == 1:  # the file may be larger than a batch
                yield LargeFile(self._pack, *batch[0])
                continue
            for content in self._pack.read_files([item.number for item in batch]):
                yield content.data

    def _walk(self) -> None:
        names = record_names(self._pack.volume.record_count)
        for record in self._pack.entries(self._pack.folder_ino("")):
            try:
                found = list(self._pack.entries(record.attributes.ino, recursive=True))
            except ChecksumError:
                if self._on_error == "raise":
                    raise
                self.skipped_count += 1
            else:
                self._add(next(names), found)
                self.record_count += 1
        self._entries.number()

    def _add(self, name: str, found: list[Entry]) -> None:
        """Add the directory of a record, with its contents."""
        folders = {"": self._add_folder(0, name)}
        files = defaultdict(list)  # by directory
        for entry in found:
            above, _, own_name = entry.path.rpartition("/")
            if entry.is_folder:
                folders[entry.path] = self._add_folder(folders[above], own_name)
                continue
            size = entry.attributes.size
            file = (os.fsencode(own_name), size, 0, UNKNOWN_TIME_NS)
            files[folders[above]].append(file)
            self._inos.append(entry.attributes.ino)
            self._sizes.append(size)
            self.size_bytes += size
        for folder, batch in files.items():
            self._entries.add_files(folder, batch)

    def _add_folder(self, parent: int, name: str) -> int:
        return self._entries.add_folder(parent, os.fsencode(name), 0, UNKNOWN_TIME_NS)

    def close(self) -> None:
        self._pack.close()
