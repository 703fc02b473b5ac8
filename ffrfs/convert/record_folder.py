"""A directory of records on disk: the tree of a mounted data set, as ordinary files.

It has a directory per record with a file per feature, example.json and record.bin; for FFRecord a
file per record. Converting back reads only record.bin: changes of other files have no effect.
Not here: the same tree as a pack (feature_folder.py). Concurrency: one thread at a time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from ffrfs.convert.kind import FIRST_RECORD, kind_of
from ffrfs.convert.output import staged_set
from ffrfs.convert.source import Record, RecordSource, size_of
from ffrfs.errors import ChecksumError, FormatError, PackError
from ffrfs.folder.extract import extract_tree
from ffrfs.folder.progress import Progress
from ffrfs.folder.tree import PackTree
from ffrfs.printable import quoted
from ffrfs.remote.url import is_url

_RECORD = "record.bin"


def write_record_folder(source: str, target: str, progress: Progress | None) -> int:
    """Write the new directory `target`; return the number of records.

    Raises PackError for a source that no mount shows as records, or if `target` exists already;
    ChecksumError, writing nothing, if records are damaged.
    """
    if is_url(target):
        raise PackError(
            f"{target}: a directory per record is written here only; for a bucket write a pack "
            "(--features), or shards"
        )
    found = kind_of(source)
    if found == "pack":
        raise PackError(f"{source}: is a pack; write its files with: ffrfs extract {source} DIR")
    if found not in ("tfrecord", "ffrecord"):
        raise PackError(f"{source}: convert it to a .tfrecord file first, and that to a directory")
    with staged_set(target) as staging, PackTree(source, show_splits=False) as tree:
        bad = extract_tree(tree, staging, progress=progress)
        if bad:
            more = f" (and {len(bad) - 1:,} more damaged files)" if len(bad) > 1 else ""
            raise ChecksumError(f"{bad[0]}{more}")
        return tree.volume.record_count


class RecordFolderSource(RecordSource):
    """The records of a directory: N/record.bin, or the file N, for each number N from 0 on.

    None is ever skipped, as there are no checksums.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        names = sorted(name for name in os.listdir(path) if not name.startswith("."))
        for number, name in enumerate(names):
            if name != f"{number:0{len(FIRST_RECORD)}}":
                reason = f"{quoted(name)} is where record {number} should be; none may be missing"
                raise FormatError.at(path, reason)
        self._files = [self._file(name) for name in names]
        self._last = ""  # the file of the record that was yielded last
        self.size_bytes = sum(map(size_of, self._files))

    def count(self) -> int:
        return len(self._files)

    def records(self) -> Iterator[Record]:
        for file in self._files:
            self._last = file
            with open(file, "rb") as stream:
                yield stream.read()

    def place(self) -> str:
        return self._last

    def _file(self, name: str) -> str:
        file = os.path.join(self.path, name)
        return os.path.join(file, _RECORD) if stat.S_ISDIR(os.stat(file).st_mode) else file
