"""TFRecordReader: records of TFRecord files by number, in verified batches.

Not here: the reading itself (the native core), sidecars (sidecar.py), the files of a path
(shards.py), reading from front to end, compressed or not (iterator.py).
Concurrency: several threads may use a reader, and it still works in the child of a fork().
Pickling sends the file names; the other process opens the files itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import fsencode
from typing import TYPE_CHECKING, Unpack

from ffrfs._native import TFRecords
from ffrfs.files.record_reader import RecordReader
from ffrfs.printable import shown_name
from ffrfs.remote.named_store import StoreKeywords, in_store
from ffrfs.remote.paths import absolute
from ffrfs.tfrecord.shards import PathType, shard_paths
from ffrfs.tfrecord.sidecar import keep_sidecars

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class TFRecordReader(RecordReader[bytes]):
    """The records of one TFRecord file, or of several as one index space.

    `path`: a file, a list of files, or a directory of shards (shards.py). Opening hops from
    record to record, without reading their data, unless `sidecar` and there is a sound
    FILE.idx or FILE.tfindex; without one, an index is written into the user's cache for the
    next time (`ffrfs index` writes FILE.idx). `check_data=False` does not check the data.
    `store` says where URLs are, as for PackedFolder.

    Raises FormatError for a file that has no uncompressed records, TruncatedError for a file
    that ends inside a record, OSError for a file that cannot be opened.
    """

    _records: TFRecords

    def __init__(
        self,
        path: PathType | Sequence[PathType],
        check_data: bool = True,
        sidecar: bool = True,
        **store: Unpack[StoreKeywords],
    ) -> None:
        self.paths = shard_paths(in_store(path, store))
        self._places = [absolute(path) for path in self.paths]
        self.check_data = check_data
        self.sidecar = sidecar
        self._records = TFRecords([fsencode(name) for name in self.paths], check_data, sidecar)
        self.n: int = self._records.count
        self.counts = self._records.counts  # records of each file
        if sidecar:
            keep_sidecars(self._records, self.paths)

    def __iter__(self) -> Iterator[bytes]:
        """Yield all records in order. Raises ChecksumError at a damaged one, and ends there."""
        for shard in range(len(self.paths)):
            scan = self._records.scan(shard)
            while records := scan.read():
                yield from records

    def offsets(self, shard: int) -> NDArray[np.int64]:
        """Return the offsets of a file's records in bytes, and last its size: a new array."""
        return self._records.offsets(shard)

    def verify(self, first: int, count: int) -> list[tuple[int, Exception]]:
        """Read `count` records from `first` on; return numbers and errors of the damaged ones."""
        return self._records.verify(first, count)

    def __reduce__(self) -> tuple[type[TFRecordReader], tuple[list[str], bool, bool]]:
        return type(self), (self._places, self.check_data, self.sidecar)

    def __repr__(self) -> str:
        return f"TFRecordReader({[*map(shown_name, self.paths)]!r}, n={self.n})"
