"""tf_record_iterator: the records of one TFRecord file, one after the other.

This module chooses the scan for a file, and handles bad records. Not here: the reading
(the native core, stream_scan.py), random access (reader.py). Concurrency: one thread at a
time.
"""

from __future__ import annotations

import io
import os
import select
import stat
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, Unpack

from ffrfs._native import TFRecordScan
from ffrfs.errors import ChecksumError, FormatError, TruncatedError
from ffrfs.files.closing import Closing
from ffrfs.remote.named_store import StoreKeywords, in_store
from ffrfs.remote.stream import open_stream
from ffrfs.tfrecord.compression import DecompressedStream, recognise
from ffrfs.tfrecord.framing import HEADER
from ffrfs.tfrecord.options import OptionsLike, TFRecordOptions
from ffrfs.tfrecord.stream_scan import Scan, StreamScan

if TYPE_CHECKING:
    from ffrfs.tfrecord.compression import ByteStream

# A function of the error and the record's number returns what takes its place, or None.
OnError: TypeAlias = Literal["raise", "skip", "stop"] | Callable[[Exception, Any], Any]

# The bytes for recognise(), if the file gives so many at once.
BEGIN_SIZE = 4096


def tf_record_iterator(
    path: str | os.PathLike[str],
    options: OptionsLike = None,
    *,
    check_data: bool = True,
    on_error: OnError = "raise",
    **store: Unpack[StoreKeywords],
) -> RecordIterator:
    """Iterate over the records of a TFRecord file, each as `bytes`.

    `path`: a file, or a pipe. `options`: TFRecordOptions, a TFRecordCompressionType, or
    "", "GZIP", "ZLIB"; None: the compression is recognised. `check_data=False` compares no
    checksum. `store`: where a URL is, as for PackedFolder.

    `on_error`, at a bad record: "raise" raises ChecksumError (the next record can still be read),
    TruncatedError or FormatError (no further record can); "stop" ends the iteration quietly; "skip"
    skips and counts a record whose data do not match, and a last one that the end of the file cuts
    off. After a corrupt length, or corrupt compressed data, the begin of the next record is
    unknown, so "skip" raises there too. OSError is always raised. A function is called where "skip"
    skips, with the error and the record's number in its file; its result takes the record's place,
    unless it is None. After Ctrl-C inside it, when records may be lost, the iterator raises
    RuntimeError.
    """
    check_on_error(on_error)
    return RecordIterator(
        _open_scan(os.fspath(in_store(path, store)), options, check_data), on_error
    )


def standard_input_iterator() -> RecordIterator:
    """Iterate over the records of standard input, a file, pipe or socket, from where it is."""
    # Not opened by its name: a file would begin again, and a socket cannot be opened.
    name = "/dev/stdin"
    try:
        file = _StandardInput(0, closefd=False)
        begin = _beginning(file)
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from None
    return RecordIterator(_stream_scan(file, name, recognise(begin), begin), "raise")


class _StandardInput(io.FileIO):
    """Standard input; a read waits for bytes, although a program may have made it non-blocking."""

    def read(self, size: int | None = -1, /) -> bytes:
        while (piece := super().read(size)) is None:
            select.select([self], [], [])
        return bytes(piece)


def check_on_error(on_error: object) -> None:
    """Raise ValueError for a value that tf_record_iterator() does not take."""
    if on_error not in ("raise", "skip", "stop") and not callable(on_error):
        raise ValueError(f'on_error is "raise", "skip", "stop" or a function, not {on_error!r}')


class RecordIterator(Closing):
    """The iterator that tf_record_iterator() returns; it closes its file at the end."""

    def __init__(self, scan: Scan, on_error: OnError) -> None:
        self._scan: Scan | None = scan
        self._on_error = on_error
        self._is_over = False
        self._is_cut_off = False  # the last record was skipped
        self._interruption = ""  # the name of the exception, such as KeyboardInterrupt
        self._batch: list[bytes] = []  # records in reverse order
        # Number of records that were skipped.
        self.skipped = 0
        # In the file, of the first record that next_batch() has returned last.
        self.first = 0
        self._next = 0
        self._finalizer = weakref.finalize(self, scan.close)
        # The end of the program must not close it: another thread may be reading.
        self._finalizer.atexit = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        try:
            if not self._batch:
                self._batch = self.next_batch()
                self._batch.reverse()
            return self._batch.pop()
        except BaseException as error:
            self._end_if_interrupted(error)
            raise

    @property
    def number(self) -> int:
        """Return the number in the file of the record that next() has returned last."""
        return self._next - len(self._batch) - 1

    def close(self) -> None:
        """Close the file. Reading a record afterwards raises ValueError."""
        scan, self._scan = self._scan, None
        self._batch = []
        if scan is not None:
            scan.close()
            self._finalizer.detach()  # Python would lose a Ctrl-C that comes within it

    def next_batch(self) -> list[bytes]:
        """Return the records of the next read, at least one. Do not mix it with next()."""
        if self._interruption:
            raise RuntimeError(f"{self._interruption} has interrupted the iterator")
        if self._is_over:
            raise StopIteration
        if self._scan is None:
            raise ValueError("the iterator is closed")
        try:
            batch = self._read(self._scan)
        except BaseException as error:
            self._end_if_interrupted(error)
            raise
        if not batch:
            self._is_over = True
            self.close()
            raise StopIteration
        return batch

    def _end_if_interrupted(self, error: BaseException) -> None:
        if not isinstance(error, Exception):  # Ctrl-C: records may be lost
            self._interruption = type(error).__name__
            self.close()

    def _read(self, scan: Scan) -> list[bytes]:
        """Return the next records of the scan, or [] if the iteration ends here."""
        while not self._is_cut_off:
            self.first = self._next
            try:
                records = scan.read()
                self._next += len(records)
                return records
            except (ChecksumError, FormatError) as error:
                if self._on_error == "stop":
                    return []
                is_skippable = isinstance(error, ChecksumError | TruncatedError)
                if self._on_error == "raise" or not is_skippable:
                    raise
                self.skipped += 1
                self._next += 1
                self._is_cut_off = isinstance(error, TruncatedError)
                if callable(self._on_error):
                    try:
                        other = self._on_error(error, error.record)
                    except StopIteration:  # it would end the iteration
                        raise RuntimeError("on_error raised StopIteration") from None
                    if other is not None:
                        return [other]
        return []


def _open_scan(path: str, options: OptionsLike, check_data: bool) -> Scan:
    kind = TFRecordOptions(options).compression_type
    file = open_stream(path)
    try:
        begin = b""
        if kind is None:
            begin = _beginning(file)
            kind = recognise(begin)
        is_pipe = isinstance(file, io.FileIO) and not stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        if kind or is_pipe:
            return _stream_scan(file, path, kind, begin, check_data)
    except BaseException:
        file.close()
        raise
    file.close()
    return TFRecordScan(os.fsencode(path), check_data)


def _stream_scan(
    file: ByteStream, name: str, kind: str, begin: bytes, check_data: bool = True
) -> StreamScan:
    """Return a scan of a stream that is compressed as `kind` says; `begin` was read already."""
    if kind:
        file = DecompressedStream(file, kind, begin)
        return StreamScan(file, name, check_data=check_data, is_compressed=True)
    return StreamScan(file, name, begin=begin, check_data=check_data)


def _beginning(file: ByteStream) -> bytes:
    """Return the first bytes, enough for recognise() to decide."""
    begin = file.read(BEGIN_SIZE)
    while len(begin) < HEADER.size and (more := file.read(BEGIN_SIZE)):
        begin += more
    return begin
