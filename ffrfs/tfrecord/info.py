"""info: the contents of TFRecord files, in numbers.

A plain file costs its framing, or its sidecar; a compressed one must be read whole. Not here: the
features in the records (schema.py), finding the files (shards.py).
"""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ffrfs._native import TFRecords
from ffrfs.errors import FormatError
from ffrfs.remote.stream import open_stream, size_of
from ffrfs.remote.url import is_url
from ffrfs.tfrecord.compression import recognise
from ffrfs.tfrecord.framing import FRAME_SIZE
from ffrfs.tfrecord.iterator import BEGIN_SIZE, tf_record_iterator

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Called for each record with the numbers of records and bytes of its file that were read so far.
Progress: TypeAlias = Callable[[int, int], object]


class RecordSizes(NamedTuple):
    """Sizes of records in bytes."""

    min: int
    median: int
    max: int


class FileInfo(NamedTuple):
    file: str
    compression: str  # "GZIP", "ZLIB", or ""
    has_sidecar: bool  # whether it has a sound one; a compressed file never has
    record_count: int
    byte_count: int  # of the data of all records
    file_size: int  # in bytes


class TFRecordInfo(NamedTuple):
    files: list[FileInfo]
    sizes: RecordSizes | None  # None: there are no records


def compression_of(file: str) -> str:
    """Return "GZIP", "ZLIB" or "". Raises FormatError if it is not a regular file, OSError."""
    # Opening a FIFO waits for its writer.
    if not is_url(file) and not stat.S_ISREG(os.stat(file).st_mode):
        raise FormatError.at(file, "not a regular file")
    with open_stream(file) as stream:
        return recognise(stream.read(BEGIN_SIZE))


def info(files: Sequence[str], progress: Progress | None = None) -> TFRecordInfo:
    """Return the numbers of all files. Raises FormatError (TruncatedError), ChecksumError, OSError.

    `progress` is called while a compressed file is read.
    """
    import numpy as np

    found: list[FileInfo] = []
    sizes: list[NDArray[np.int64]] = []
    for file in files:
        compression = compression_of(file)
        if compression:
            of_records, has_sidecar = _read_sizes(file, progress), False
        else:
            of_records, has_sidecar = _indexed_sizes(file)
        sizes.append(of_records)
        found.append(
            FileInfo(
                file=file,
                compression=compression,
                has_sidecar=has_sidecar,
                record_count=len(of_records),
                byte_count=int(of_records.sum()),
                file_size=size_of(file),
            )
        )
    return TFRecordInfo(found, _summary(np.concatenate(sizes)) if sizes else None)


def _indexed_sizes(file: str) -> tuple[NDArray[np.int64], bool]:
    records = TFRecords([os.fsencode(file)])
    offsets = records.offsets(0)
    return offsets[1:] - offsets[:-1] - FRAME_SIZE, records.used_sidecars[0]


def _read_sizes(file: str, progress: Progress | None) -> NDArray[np.int64]:
    import numpy as np

    sizes = array("q")
    byte_count = 0
    with tf_record_iterator(file) as records:
        for record in records:
            sizes.append(len(record))
            byte_count += len(record)
            if progress is not None:
                progress(len(sizes), byte_count)
    return np.array(sizes, dtype=np.int64)


def _summary(sizes: NDArray[np.int64]) -> RecordSizes | None:
    count = len(sizes)
    if count == 0:
        return None
    sizes.sort()
    median = (int(sizes[(count - 1) // 2]) + int(sizes[count // 2])) // 2
    return RecordSizes(int(sizes[0]), median, int(sizes[-1]))
