"""TFRecordWriter: records into one TFRecord file.

Not here: the framing (framing.py), the compression (compression.py). Concurrency: several
threads may write; they take turns.
"""

from __future__ import annotations

import contextlib
import io
import os
import threading
import weakref
from typing import TYPE_CHECKING, NoReturn, Self

from ffrfs.tfrecord.compression import CompressedFile
from ffrfs.tfrecord.framing import encode_footer, encode_header
from ffrfs.tfrecord.options import OptionsLike, TFRecordOptions

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Bytes gathered before they are written: many small records are one system call.
BUFFER_SIZE = 256 << 10


class TFRecordWriter:
    """Write records to the file `path`, replacing an existing file.

    `options`: TFRecordOptions, a TFRecordCompressionType, or "", "GZIP", "ZLIB".

    The file is a stream, as TensorFlow's is: it has its name from the beginning
    and grows. When flush() returns, other processes can read all records so far; of later
    records a reader sees a part at most, and reports that the file is cut off. An
    exception that ends the `with` block closes the file as it is, with all records that
    were written; so does dropping the writer. After an error of the disk (OSError) the
    writer is closed, and the file may end in the midst of a record.
    """

    def __init__(self, path: str | os.PathLike[str], options: OptionsLike = None) -> None:
        self.path = os.fspath(path)
        if not isinstance(options, TFRecordOptions):
            options = TFRecordOptions(options)
        self._lock = threading.Lock()
        raw = io.FileIO(self.path, "w")
        self._compressed = CompressedFile(raw, options) if options.compression_type else None
        size = options.input_buffer_size if self._compressed else None
        self._file = FrameFile(self._compressed or raw, size or BUFFER_SIZE)
        weakref.finalize(self, self._file.close)

    def write(self, record: Buffer | str) -> None:
        """Append one record: the bytes of any contiguous bytes-like object, or a str's UTF-8.

        Raises ValueError if the writer is closed.
        """
        with self._lock:
            self._require_open()
            try:
                self._file.append(record)
            except OSError as error:
                self._fail(error)

    def flush(self) -> None:
        """Hand all records to the system, so that a reader gets them whole.

        It costs a compressed file some of its compression. Raises ValueError if closed.
        """
        with self._lock:
            self._require_open()
            try:
                self._file.flush()
                if self._compressed is not None:
                    self._compressed.sync()
            except OSError as error:
                self._fail(error)

    def close(self) -> None:
        """Write the rest and close the file. It may be closed already."""
        with self._lock:
            try:
                self._file.close()
            except OSError as error:
                self._fail(error)

    def _require_open(self) -> None:
        if self._file.closed:
            raise ValueError(f"{self.path}: the writer is closed")

    def _fail(self, error: OSError) -> NoReturn:
        with contextlib.suppress(OSError):
            self._file.close()
        raise OSError(error.errno, f"cannot write: {error.strerror}", self.path) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"TFRecordWriter({self.path!r})"


class FrameFile:
    """Gathers frames for a raw file, which it owns. Concurrency: one thread."""

    def __init__(self, file: io.RawIOBase, size: int) -> None:
        from ffrfs._native import Frames

        self._file = file
        self._frames = Frames(size)
        self.closed = False

    def append(self, record: Buffer | str) -> None:
        try:
            if self._frames.append(record):
                return
            self.flush()
            if self._frames.append(record):
                return
        except BufferError:
            raise ValueError("a record is contiguous bytes; copy it first") from None
        view = memoryview(record.encode() if isinstance(record, str) else record).cast("B")
        self._put_all(memoryview(encode_header(view.nbytes)), view, memoryview(encode_footer(view)))

    def flush(self) -> None:
        try:
            self._put(self._frames.bytes())
        finally:
            self._frames.clear()  # so that nothing is written twice after an error

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        try:
            self.flush()
        finally:
            self._file.close()

    def _put_all(self, *parts: memoryview) -> None:
        is_plain = isinstance(self._file, io.FileIO)
        done = os.writev(self._file.fileno(), parts) if is_plain else 0
        for part in parts:
            self._put(part[done:])
            done = max(done - part.nbytes, 0)

    def _put(self, data: memoryview) -> None:
        while data:  # a raw file may take only a part
            data = data[self._file.write(data) :]
