"""FileReader: records of FFRecord files by number, in verified batches.

Not here: the reading itself (the native core), writing (writer.py), paths (ffrfs.folder).
Concurrency: several threads may use a reader, and it still works in the child of a fork().
Pickling sends the file names; the other process opens the files itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, SupportsIndex, Unpack, cast

from ffrfs._native import Records, folder_files, is_tfrecord
from ffrfs.errors import FormatError, UnverifiedHeaderWarning, warn
from ffrfs.files.record_reader import RecordReader
from ffrfs.printable import shown_name
from ffrfs.remote.named_store import StoreKeywords, in_store, kept_in_store
from ffrfs.remote.paths import absolute, is_folder, let_urls_in

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ffrfs._native import RecordBytes

PathType = str | os.PathLike[str]

# The limits of a batch for iterating; a larger record is read alone.
_BATCH_SIZE = 16 << 20
_BATCH_COUNT = 4096


class FileReader(RecordReader["RecordBytes"]):
    """The records of one FFRecord file, or of several as one index space.

    `fname`: a file, a list of files, or a directory, whose *.ffr files are read in the
    order of their names; each may be a URL, and that of a directory ends in "/";
    `store` says where they are, as for PackedFolder. Raises
    FormatError for a file that is not sound, OSError for a file that cannot be opened; warns
    (UnverifiedHeaderWarning) if the header has no checksum, as in files of old writers.
    """

    _records: Records

    def __init__(
        self,
        fname: PathType | Sequence[PathType],
        check_data: bool = True,
        **store: Unpack[StoreKeywords],
    ) -> None:
        self.fnames = _file_names(in_store(fname, store))
        self._places = [absolute(name) for name in self.fnames]
        self.check_data = check_data
        self._records = _open(self.fnames, check_data)
        self.n: int = self._records.count
        for path in self._records.unverified_paths:
            warn(UnverifiedHeaderWarning.of(os.fsdecode(path)), stacklevel=2)

    def read(self, indices: Iterable[SupportsIndex]) -> list[RecordBytes]:
        """Return one 1-D uint8 array per index, in that order; duplicates are allowed.

        An iterator is read to its end first. Each array owns its memory. Raises IndexError
        for a number below 0 or not below `n`, ChecksumError for a damaged record, OSError if
        the disk fails; then it returns no record.
        """
        if not isinstance(indices, (list, tuple)) and isinstance(indices, Iterable):
            indices = list(indices)
        return super().read(cast(Sequence[SupportsIndex], indices))

    def __iter__(self) -> Iterator[RecordBytes]:
        """Yield all records, read in batches. Raises ChecksumError at a damaged one, and ends.

        Memory: a batch, and 8 bytes for each record of a file.
        """
        first = 0
        for shard in range(len(self.fnames)):
            for begin, end in _batches(self._records.offsets(shard)):
                records = self.read(range(first + begin, first + end))
                records.reverse()
                while records:
                    yield records.pop()
            first += self._records.counts[shard]

    def get_offsets(self, file_index: int) -> NDArray[np.int64]:
        """Return the begins of the records of a file, and its end: n + 1 offsets in bytes."""
        return self._records.offsets(_shard(file_index))

    def get_checksums(self, file_index: int) -> NDArray[np.uint32]:
        """Return the CRC-32 of each record of one file, from its header."""
        return self._records.checksums(_shard(file_index))

    def __reduce__(self) -> tuple[type[FileReader], tuple[list[str], bool]]:
        return type(self), (self._places, self.check_data)

    def __repr__(self) -> str:
        return f"FileReader({[*map(shown_name, self.fnames)]!r}, n={self.n})"


def _open(names: Sequence[str], check_data: bool) -> Records:
    try:
        return Records([os.fsencode(name) for name in names], check_data)
    except FormatError as error:
        named = next((name for name in names if shown_name(name) == error.file), None)
        if named is None or not is_tfrecord(os.fsencode(named)):
            raise
        reason = "is a TFRecord file; read it with ffrfs.tfrecord.TFRecordReader"
        raise FormatError.at(named, reason) from None


def _file_names(fname: PathType | Sequence[PathType]) -> list[str]:
    if not isinstance(fname, str | os.PathLike):
        names = [os.fspath(name) for name in fname]
        let_urls_in(names)
        return names
    path = os.fspath(fname)
    let_urls_in([path])
    if not is_folder(path):
        return [path]
    packs, _ = folder_files(os.fsencode(path))
    if not packs:
        raise FormatError.at(path, "holds no *.ffr files")
    return [kept_in_store(os.fsdecode(pack)) for pack in packs]


def _batches(offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield the ranges (begin, end) of a file's records for batches."""
    begin, count = 0, len(offsets) - 1
    while begin < count:
        limit = offsets[begin] + _BATCH_SIZE
        end = max(begin + 1, int(offsets.searchsorted(limit, side="right")) - 1)
        end = min(end, begin + _BATCH_COUNT, count)
        yield begin, end
        begin = end


def _shard(file_index: int) -> int:
    if file_index < 0:
        raise IndexError(f"file number {file_index} is negative")
    return file_index
