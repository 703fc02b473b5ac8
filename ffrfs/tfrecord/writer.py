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
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from ffrfs._native import Frames
from ffrfs.files.closing import Closing
from ffrfs.tfrecord.compression import CompressedFile
from ffrfs.tfrecord.framing import encode_footer, encode_header
from ffrfs.tfrecord.options import OptionsLike, TFRecordOptions

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Bytes gathered before they are written: many small records are one system call.
BUFFER_SIZE = 256 << 10


class TFRecordWriter(Closing):
    """Write records to the file `path`, replacing an existing file.

    `options`: TFRecordOptions, a TFRecordCompressionType, or "", "GZIP", "ZLIB".

    The file is a stream, as TensorFlow's is: it has its name from the beginning
    and grows. When flush() returns, other processes can read all records so far; of later
    records a reader sees a part at most, and reports that the file is cut off. An
    exception that ends the `with` block closes the file as it is, with all records that
    were written; so does dropping the writer. After an error of the disk (OSError) the
    writer is closed, and the file may end in the midst of a record. A call that a signal
    interrupts (KeyboardInterrupt) leaves the writer open; the next one writes the rest. If a
    signal's handler calls the writer in the midst of another call, it gets RuntimeError. A
    forked child does not write the records of its parent.
    """

    def __init__(self, path: str | os.PathLike[str], options: OptionsLike = None) -> None:
        self.path = os.fspath(path)
        if not isinstance(options, TFRecordOptions):
            options = TFRecordOptions(options)
        raw = io.FileIO(self.path, "w")
        self._compressed = CompressedFile(raw, options) if options.compression_type else None
        size = options.input_buffer_size if self._compressed else None
        self._file = FrameFile(self._compressed or raw, size or BUFFER_SIZE)
        self._finalizer = weakref.finalize(self, _close, self._file)

    def write(self, record: Buffer | str) -> None:
        """Append one record: the bytes of any contiguous bytes-like object, or a str's UTF-8.

        Raises ValueError if the writer is closed.
        """
        with self._turn():
            self._require_open()
            try:
                self._file.append(record)
            except OSError as error:
                self._fail(error)

    def flush(self) -> None:
        """Hand all records to the system, so that a reader gets them whole.

        It costs a compressed file some of its compression. Raises ValueError if closed.
        """
        with self._turn():
            self._require_open()
            try:
                self._file.flush()
                if self._compressed is not None:
                    self._compressed.sync()
            except OSError as error:
                self._fail(error)

    def close(self) -> None:
        """Write the rest and close the file. It may be closed already."""
        with self._turn():
            try:
                self._file.close()
            except OSError as error:
                self._fail(error)
            self._finalizer.detach()  # Python would lose a Ctrl-C that comes within it

    def _turn(self) -> threading.RLock:
        if self._file.lock._is_owned():  # type: ignore[attr-defined] # waiting would never end
            raise RuntimeError(f"{self.path}: a signal's handler uses a writer that is in use")
        return self._file.lock

    def _require_open(self) -> None:
        if self._file.closed:
            raise ValueError(f"{self.path}: the writer is closed")

    def _fail(self, error: OSError) -> NoReturn:
        with contextlib.suppress(OSError):
            self._file.close()
        raise OSError(error.errno, f"cannot write: {error.strerror}", self.path) from None

    def __repr__(self) -> str:
        return f"TFRecordWriter({self.path!r})"


def _close(file: FrameFile) -> None:
    with file.lock:  # at the end of the program, another thread may be writing
        file.close()


class FrameFile:
    """Gathers frames for a raw file, which it owns. Concurrency: one thread, which has `lock`.

    A signal whose handler raises loses no byte, and none is written twice: the next call goes on.
    For this, calls by map() and extend() note their progress before any handler can run. A forked
    child does not write what its parent has gathered.
    """

    def __init__(self, file: io.RawIOBase, size: int) -> None:
        self._file = file
        # The gathered frames; a buffer that will replace them; the parts of a large record, which
        # is written before the frames; how many bytes each write has taken, of the record or, if
        # there is none, of the frames. One assignment is one step.
        self._state: _State = Frames(size), Frames(size), (), []
        self._is_inherited = False  # by a forked child that has written nothing
        self.closed = False
        self.lock = threading.RLock()
        _files.add(self)

    def append(self, record: Buffer | str) -> None:
        try:
            if self._state[0].append(record):
                return
            self.flush()
            if self._state[0].append(record):
                return
        except BufferError:
            raise ValueError("a record is contiguous bytes; copy it first") from None
        view = memoryview(record.encode() if isinstance(record, str) else record).cast("B")
        parts = memoryview(encode_header(view.nbytes)), view, memoryview(encode_footer(view))
        frames, spare = self._state[:2]
        self._state = frames, spare, parts, []
        try:
            self.flush()
        except BaseException:  # the caller may change its buffer
            frames, spare, left, counts = self._state
            self._state = frames, spare, tuple(memoryview(bytes(part)) for part in left), counts
            raise

    def flush(self) -> None:
        try:
            frames, spare, parts, counts = self._state
            if parts:
                self._put(parts, counts)
                self._state = frames, spare, (), (counts := [])
            self._put((frames.bytes(),), counts)
            spare.clear()
            self._state = spare, frames, (), []
        except OSError:
            self._drop()
            raise

    def close(self) -> None:
        if self.closed:
            return
        try:
            self.flush()
            if self._is_inherited:  # also the bytes that a compressor has gathered
                with open(os.devnull, "wb") as nothing:
                    os.dup2(nothing.fileno(), self._file.fileno())
        except OSError:
            self.closed = True
            self._file.close()
            raise
        self._file.close()
        self.closed = True
        _files.discard(self)

    def forget(self) -> None:
        self.lock = threading.RLock()  # a thread that the child lacks may have the old one
        self._drop()
        self._is_inherited = True

    def _drop(self) -> None:
        frames, spare = self._state[:2]
        frames.clear()
        self._state = frames, spare, (), []

    def _put(self, parts: Sequence[memoryview], counts: list[int]) -> None:
        while left := _behind(parts, sum(counts)):  # a raw file may take only a part
            self._is_inherited = False
            if isinstance(self._file, io.FileIO):
                counts.extend(map(os.writev, (self._file.fileno(),), (left,)))
            else:
                counts.extend(map(self._file.write, left[:1]))


_State: TypeAlias = tuple[Frames, Frames, Sequence[memoryview], list[int]]
_files: weakref.WeakSet[FrameFile] = weakref.WeakSet()


def _behind(parts: Sequence[memoryview], done: int) -> list[memoryview]:
    left = []
    for part in parts:
        if done < part.nbytes:
            left.append(part[done:])
        done = max(done - part.nbytes, 0)
    return left


def _forget_all() -> None:
    for file in list(_files):
        file.forget()


os.register_at_fork(after_in_child=_forget_all)
