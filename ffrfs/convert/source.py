"""The sources of records: a TFRecord or FFRecord data set, or a pack.

Records are returned one after the other, verified; memory holds the current one, and a batch of
small ones. Not here: writing them (target.py).

Concurrency: one thread at a time. The files are not changed.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from ffrfs._native import TFRecords
from ffrfs.errors import FormatError, PackError
from ffrfs.files import batches
from ffrfs.files.closing import Closing
from ffrfs.folder.read_each import Bad, read_each
from ffrfs.folder.tree import Entry, PackTree
from ffrfs.printable import quoted
from ffrfs.record.reader import FileReader
from ffrfs.remote.url import is_url
from ffrfs.tfrecord.info import compression_of
from ffrfs.tfrecord.iterator import RecordIterator, tf_record_iterator
from ffrfs.tfrecord.shards import shard_paths

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ffrfs._native import RecordBytes

# The bytes of a record.
Record: TypeAlias = bytes | memoryview
OnError = Literal["raise", "skip"]

# The least number of digits in a name that is a record's number (native/tree/flat_tree.cc).
NUMBER_DIGITS_MIN = 9

# The limits of a batch of records that are read at once; a larger record is read alone.
_BATCH_SIZE = 16 << 20
_BATCH_COUNT = 4096

# protobuf takes no message of 2 GiB; this leaves room for the path and the message around.
_EXAMPLE_DATA_LIMIT = (2 << 30) - (64 << 10)


class UnfitRecordError(Exception):
    """The target cannot hold the record that its source has yielded last: the text says why."""


class RecordSource(Closing):
    """Records in order. Errors name file, record and offset."""

    # The approximate size of all records together; 0: unknown before they are read.
    size_bytes: int

    def __init__(self, path: str, on_error: OnError = "raise") -> None:
        self.path = path
        self.skipped_count = 0  # damaged records that the last pass over records() left out
        self._on_error = on_error

    def count(self) -> int:
        """Return the number of records of records(); may take as long as reading them."""
        return sum(1 for _ in self.records())

    def records(self) -> Iterator[Record]:
        raise NotImplementedError

    def place(self) -> str:
        """Return where the record is that records() has yielded last: "FILE: record 7"."""
        raise NotImplementedError

    def close(self) -> None:
        """Do nothing: most sources have a file open only while they read it."""


@contextlib.contextmanager
def naming_records(source: RecordSource) -> Iterator[None]:
    """Raise PackError, which names file and record, for an UnfitRecordError of the block."""
    try:
        yield
    except UnfitRecordError as error:
        raise PackError(f"{source.place()}: {error}") from None


class TFRecordSource(RecordSource):
    """A TFRecord file, or a directory of them, compressed or not."""

    def __init__(self, path: str, on_error: OnError) -> None:
        super().__init__(path, on_error)
        self._files = shard_paths(path)
        self._reading: tuple[str, RecordIterator] | None = None
        self._is_compressed = any(compression_of(file) for file in self._files)
        is_unknown = self._is_compressed or any(map(is_url, self._files))
        self.size_bytes = 0 if is_unknown else sum(map(os.path.getsize, self._files))

    def count(self) -> int:
        if self._is_compressed or self._on_error == "skip":
            return super().count()
        return TFRecords([os.fsencode(file) for file in self._files]).count

    def records(self) -> Iterator[Record]:
        self.skipped_count = 0
        for file in self._files:
            with tf_record_iterator(file, on_error=self._on_error) as records:
                self._reading = file, records
                yield from records
                self.skipped_count += records.skipped

    def place(self) -> str:
        assert self._reading is not None
        file, records = self._reading
        return f"{file}: record {records.number}"


class Unread(Protocol):
    """The records that were not read yet."""

    @property
    def size(self) -> int: ...


_Item = TypeVar("_Item", bound=Unread)


class SizedItem(NamedTuple):
    """A record that was not read yet."""

    number: int  # a record number, or an inode
    size: int


class _NumberedSource(RecordSource):
    """Records that are read in batches, by their numbers."""

    _read: Callable[[Sequence[int]], list[RecordBytes]]
    _last = 0  # the number of the record that was yielded last

    def count(self) -> int:
        return super().count() if self._on_error == "skip" else self._sound_count()

    def records(self) -> Iterator[Record]:
        self.skipped_count = 0
        for batch in in_batches(self._items()):
            numbers = [item.number for item in batch]
            contents = read_all(self._read, numbers, self._on_error)
            for number, content in zip(numbers, contents, strict=True):
                if content is None:
                    self.skipped_count += 1
                else:
                    self._last = number
                    yield self._record(number, content.data)

    def _sound_count(self) -> int:
        """Return the number of records if none is damaged."""
        return sum(1 for _ in self._items())

    def _items(self) -> Iterator[SizedItem]:
        raise NotImplementedError

    def _record(self, number: int, content: memoryview) -> Record:
        return content


class FFRecordSource(_NumberedSource):
    """A plain FFRecord file, or a directory of them."""

    def __init__(self, path: str, on_error: OnError) -> None:
        super().__init__(path, on_error)
        self._reader = FileReader(path)
        self._read = self._reader.read
        self._sizes = [_sizes(self._reader.get_offsets(i)) for i in range(len(self._reader.fnames))]
        self.size_bytes = sum(int(sizes.sum()) for sizes in self._sizes)

    def _sound_count(self) -> int:
        return len(self._reader)

    def _items(self) -> Iterator[SizedItem]:
        sizes = (int(size) for sizes in self._sizes for size in sizes)
        return map(SizedItem, itertools.count(), sizes)

    def place(self) -> str:
        number, file = self._last, 0
        while number >= len(self._sizes[file]):
            number -= len(self._sizes[file])
            file += 1
        return f"{self._reader.fnames[file]}: record {number}"

    def close(self) -> None:
        self._reader.close()


class PackedSource(_NumberedSource):
    """The files of a pack, each one record: its bytes, or an Example of them.

    `as_examples`: an Example with the features `path` and `data`, one bytes value each.
    Otherwise the files are the records that the directory was made of: each has its number as
    its name, or is `record.bin` in a directory of that name. Empty directories are left out and
    counted. Raises PackError for a directory with other files, which would be lost.
    """

    def __init__(self, path: str, on_error: OnError, as_examples: bool) -> None:
        super().__init__(path, on_error)
        self._as_examples = as_examples
        self._tree = PackTree(path)
        self._read = self._tree.read_files  # by inodes
        self.size_bytes = self._tree.volume.byte_count
        self.empty_folder_count = self._count_empty_folders() if as_examples else 0

    def place(self) -> str:
        return f"{self.path}: {quoted(self._tree.path(self._last))}"

    def close(self) -> None:
        self._tree.close()

    def _items(self) -> Iterator[SizedItem]:
        return self._files() if self._as_examples else self._numbered()

    def _files(self) -> Iterator[SizedItem]:
        for entry in self._tree.entries(self._tree.folder_ino(""), recursive=True):
            self.refuse(entry)
            if not entry.is_folder:
                yield SizedItem(entry.attributes.ino, entry.attributes.size)

    def refuse(self, entry: Entry) -> None:
        """Raise PackError if no Example can hold the entry."""
        if entry.is_link:
            raise PackError(
                f"{self.path}: {quoted(entry.path)} is a symbolic link, which an Example "
                "cannot hold; pack again with --symlinks follow"
            )
        if not entry.is_folder and entry.attributes.size > _EXAMPLE_DATA_LIMIT:
            raise PackError(
                f"{self.path}: {quoted(entry.path)}: is too large for an Example, which "
                "holds less than 2 GiB; nothing was written"
            )

    def _numbered(self) -> Iterator[SizedItem]:
        entries = self._tree.entries(self._tree.folder_ino(""))
        for number, entry in enumerate(entries):
            if entry.path != f"{number:0{max(len(entry.path), NUMBER_DIGITS_MIN)}}":
                raise PackError(
                    f"{self.path}: {quoted(entry.path)} is where record {number} should be; "
                    "--records keeps no names but numbers; leave it out to keep names"
                )
            ino = self._tree.file_ino(f"{entry.path}/record.bin" if entry.is_folder else entry.path)
            attributes = self._tree.volume.attributes(ino)
            assert attributes is not None
            yield SizedItem(ino, attributes.size)

    def _count_empty_folders(self) -> int:
        count = 0
        above = ""  # the directory whose content should come next
        for entry in self._tree.entries(self._tree.folder_ino(""), recursive=True):
            count += not entry.path.startswith(above)
            above = f"{entry.path}/" if entry.is_folder else ""
        return count + bool(above)

    def _record(self, number: int, content: memoryview) -> Record:
        if not self._as_examples:
            return content
        return bytes_example({"path": os.fsencode(self._tree.path(number)), "data": bytes(content)})


def bytes_example(values: Mapping[str, bytes]) -> bytes:
    """Return an Example that has one bytes value for each name."""
    from ffrfs.tfrecord.examples.example import Example, Features, make_feature

    features = {name: make_feature("bytes_list", [value]) for name, value in values.items()}
    # protobuf does not fix the order of a map; this one is always the same.
    return Example(features=Features(feature=features)).SerializeToString(deterministic=True)


def changed_source(path: str) -> PackError:
    return PackError(f"{path}: the source has changed while it was read; nothing was written")


def exactly(records: Iterable[Record], count: int, path: str) -> Iterator[Record]:
    """Yield the records of the source `path`. Raises PackError if there are not `count`."""
    given = 0
    for given, record in enumerate(records, 1):
        if given > count:
            break
        yield record
    if given != count:
        raise changed_source(path)


def size_of(file: str) -> int:
    """Return the size. Raises FormatError if it is no regular file: opening a FIFO may block."""
    found = os.stat(file)
    if not stat.S_ISREG(found.st_mode):
        raise FormatError.at(file, "not a regular file")
    return found.st_size


def _sizes(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    return offsets[1:] - offsets[:-1]


def in_batches(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    return batches.in_batches(items, attrgetter("size"), _BATCH_SIZE, _BATCH_COUNT)


def read_all(
    read: Callable[[Sequence[int]], list[RecordBytes]], numbers: list[int], on_error: OnError
) -> Iterator[RecordBytes | None]:
    """Yield the results of `read` for `numbers`; None for a damaged one that is skipped."""
    for found in read(numbers) if on_error == "raise" else read_each(numbers, read):
        yield None if isinstance(found, Bad) else found
