"""PackWriter: a pack made of bytes and open files, one after the other, without a directory.

The header of a pack needs the number of its records, which is known at the end. So added files go
to a file without a name beside the target (O_TMPFILE where the file system has it), and from
there, compared with their checksums, into the pack. Each takes about 200 bytes of memory.

Not here: packing existing files (pack.py).
Concurrency: one thread. The pack appears whole under its name, or never.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import operator
import os
import stat
import tempfile
import time
import weakref
from array import array
from collections.abc import Iterable, Iterator
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, BinaryIO, Protocol, Self, cast, runtime_checkable

from ffrfs._native import EntryList, crc32
from ffrfs.errors import PackError, naming
from ffrfs.files.replacing import may_replace
from ffrfs.packing.pack_file import writing
from ffrfs.packing.sources.archive_path import BadNameError, parts_of
from ffrfs.packing.sources.contents import storable_time_ns
from ffrfs.packing.sources.options import fixed_time_ns
from ffrfs.printable import quoted, shown_name
from ffrfs.remote.url import is_url

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MODE = 0o644
_MODE_MAX = 0o177777  # with the kind of file, as in st_mode
_FOLDER_MODE = 0o755
_PIECE_SIZE = 1 << 20
_NS_PER_S = 1_000_000_000

_INTERRUPTED = "adding a file was interrupted; write it again"
_UNSTORED = "its files could not be stored beside it; make room on the disk, and write it again"


@runtime_checkable
class Readable(Protocol):
    """A file that is open for reading in binary mode, or a similar object."""

    def read(self, size: int, /) -> Buffer: ...


class PackWriter:
    """Writes the pack `path`, which appears when the `with` block ends well, or not at all.

        with PackWriter("train.ffr") as pack:
            pack.add("cat/1.jpg", jpeg_bytes)

    Files are in the pack in the order in which they are added; a directory exists by its files.
    A file at `path` that is not empty is replaced with `force` alone.
    `reproducible`, or SOURCE_DATE_EPOCH in the environment: as pack_folder(). While the pack is
    written, its disk holds the files twice. Raises PackError if a file must not be replaced,
    OSError.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, force: bool = False, reproducible: bool = False
    ) -> None:
        self.path = os.fspath(path)
        if is_url(self.path):
            raise PackError(
                f"{shown_name(self.path)}: is a URL; write a local file, and upload it, or pack a "
                "directory (pack_folder)"
            )
        self._target = os.path.abspath(self.path)  # also after a chdir()
        self._time_ns = fixed_time_ns(reproducible)
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(self.path).st_mode):
                raise PackError(f"{self.path}: exists and is not a regular file; write elsewhere")
        may_replace(self.path, force)
        self._force = force
        self._entries = EntryList()
        self._entries.describe_folder(0, _FOLDER_MODE, self._now_ns())
        self._folders = {b"": 0}  # paths, and their numbers
        self._files: set[bytes] = set()  # paths
        # Of each file.
        self._sizes = array("Q")
        self._checksums = array("I")
        place = os.path.dirname(os.path.realpath(self._target))
        os.stat(place)  # raises, and names the directory, if it is missing
        with naming(self.path):
            spool = tempfile.TemporaryFile(dir=place, buffering=_PIECE_SIZE)  # noqa: SIM115 - close()
        self._spool: BinaryIO | None = cast(BinaryIO, spool)
        self._end = 0  # of the added bytes
        self._loss = ""  # why the added files are lost; also while one is being added
        _writers.add(self)

    def add(
        self,
        path: str | os.PathLike[str],
        data: Buffer | Readable | os.PathLike[str],
        *,
        mode: int | None = None,
        mtime: float | None = None,
    ) -> None:
        """Add the file `path`, "a/b.png", with the bytes `data`.

        `data`: bytes or any contiguous buffer; a file that is open in binary mode, which is read
        to its end in pieces, so that it may be larger than memory; or the path of a file, as a
        pathlib.Path. `mode`: permission bits (0o644, or those of the path's file). `mtime`: in
        seconds since 1970 (now, or that of the path's file).

        Raises PackError, and adds nothing, for a path that exists already, is absolute, has
        "..", is not UTF-8 or is too deep; ValueError for another mode or time, and after the end;
        and exceptions of `data`.
        """
        if isinstance(data, os.PathLike):
            with open(data, "rb") as file:
                info = os.fstat(file.fileno())
                mode = info.st_mode if mode is None else mode
                time_ns = info.st_mtime_ns if mtime is None else _in_ns(path, mtime)
                self._add(path, _pieces(file), mode, time_ns)
            return
        if isinstance(data, str):
            raise TypeError("data is bytes, an open file, or a pathlib.Path; encode the text")
        time_ns = self._now_ns() if mtime is None else _in_ns(path, mtime)
        is_file = isinstance(data, Readable) and not isinstance(data, mmap.mmap)  # which is both
        pieces = _pieces(cast(Readable, data)) if is_file else iter([cast("Buffer", data)])
        self._add(path, pieces, _MODE if mode is None else mode, time_ns)

    def close(self) -> None:
        """Write the pack; after this, or abort(), it does nothing. Raises PackError, OSError."""
        self._check_loss()
        if self._spool is None:
            return
        try:
            count = len(self._sizes)
            self._entries.number_by(range(count))
            if self._time_ns is not None:
                self._entries.normalize(self._time_ns)
            with writing(self._target, count + 1, force=self._force) as writer:
                with naming(self.path):  # the bytes that are buffered are written now
                    self._spool.seek(0)
                for file in range(count):
                    if self._sizes[file] <= _PIECE_SIZE:
                        writer.append(b"".join(self._read(file)))
                    else:
                        writer.append_pieces(self._read(file))
                writer.append_index(self._entries)
        finally:
            self.abort()

    def abort(self) -> None:
        """Drop all added files, and leave no file. Does nothing after close()."""
        self._loss = ""
        if self._spool is not None:
            # Its buffered bytes need not reach the disk, which may be full.
            with contextlib.suppress(OSError):
                self._spool.close()
            self._spool = None

    def _add(
        self, path: str | os.PathLike[str], pieces: Iterable[Buffer], mode: int, time_ns: int
    ) -> None:
        self._check_loss()
        if self._spool is None:
            raise ValueError(f"{self.path}: the writer is closed")
        if not 0 <= operator.index(mode) <= _MODE_MAX:
            raise ValueError(f"mode {mode}: is not permission bits, like 0o644")
        parts = self._parts(os.fspath(path))
        time_ns = storable_time_ns(time_ns)
        self._loss = _INTERRUPTED  # if Ctrl-C comes before all is noted
        try:
            size, checksum = self._keep(self._spool, pieces)
        except BaseException:
            self._roll_back()
            raise
        folder = self._folder(parts[:-1])
        self._entries.add_files(folder, [(parts[-1], size, mode, time_ns)])
        self._files.add(b"/".join(parts))
        self._sizes.append(size)
        self._checksums.append(checksum)
        self._end += size
        self._loss = ""

    def _check_loss(self) -> None:
        if self._loss:
            raise PackError(f"{self.path}: no pack was written: {self._loss}")

    def _parts(self, path: str) -> list[bytes]:
        """Return the names on the way to a new file."""
        if not isinstance(path, str):
            raise TypeError(f"paths are text, not {type(path).__name__}")
        try:
            if path.endswith("/"):
                raise BadNameError("names a directory, not a file")
            parts = parts_of(path)
            if not parts:
                raise BadNameError("names no file")
        except BadNameError as error:
            raise PackError(f"{self.path}: {quoted(path)}: {error}") from None
        whole = b"/".join(parts)
        if whole in self._files:
            raise PackError(f"{self.path}: {path!r}: was added before")
        if whole in self._folders:
            raise PackError(f"{self.path}: {path!r}: is a directory, which has files in it")
        for depth in range(1, len(parts)):
            if (above := b"/".join(parts[:depth])) in self._files:
                raise PackError(
                    f"{self.path}: {path!r}: needs the directory {above.decode()!r}, which is a "
                    "file"
                )
        return parts

    def _folder(self, parts: list[bytes]) -> int:
        """Return the number of a directory, and add it if it is new."""
        whole = b"/".join(parts)
        if whole in self._folders:
            return self._folders[whole]
        number = 0
        for depth in range(1, len(parts) + 1):
            path = b"/".join(parts[:depth])
            if path not in self._folders:
                self._folders[path] = self._entries.add_folder(
                    number, parts[depth - 1], _FOLDER_MODE, self._now_ns()
                )
            number = self._folders[path]
        return number

    def _keep(self, spool: BinaryIO, pieces: Iterable[Buffer]) -> tuple[int, int]:
        """Write the bytes of a file behind the others; return their number and checksum."""
        size = checksum = 0
        for piece in pieces:
            with naming(self.path), memoryview(piece) as view:
                checksum = crc32(view, checksum)  # refuses arrays of Python objects
                spool.write(view)
                size += view.nbytes
        return size, checksum

    def _roll_back(self) -> None:
        """Drop the bytes behind the last file that was added."""
        assert self._spool is not None
        try:
            self._spool.seek(self._end)
            self._spool.truncate()
            self._loss = ""
        except OSError:  # its buffer cannot be written
            self.abort()
            self._loss = _UNSTORED

    def _read(self, file: int) -> Iterator[bytes]:
        """Yield the bytes of a file, which was the next one to be added."""
        assert self._spool is not None
        left = self._sizes[file]
        checksum = 0
        while left:
            with naming(self.path):
                piece = self._spool.read(min(left, _PIECE_SIZE))
            if not piece:
                break
            checksum = crc32(piece, checksum)
            left -= len(piece)
            yield piece
        if left or checksum != self._checksums[file]:
            path = os.fsdecode(self._entries.paths([file])[0])
            raise PackError(
                f"{self.path}: {path!r} is not read as it was written to a temporary file beside "
                "it; the disk may be failing"
            )

    def _now_ns(self) -> int:
        return time.time_ns() if self._time_ns is None else self._time_ns

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __repr__(self) -> str:
        return f"PackWriter({self.path!r})"


def _pieces(file: Readable) -> Iterator[Buffer]:
    while True:
        piece = file.read(_PIECE_SIZE)
        if isinstance(piece, str):
            raise TypeError("the file is open in text mode; open it in binary mode ('rb')")
        if not memoryview(piece).nbytes:
            return
        yield piece


def _in_ns(path: str | os.PathLike[str], time_s: float) -> int:
    # A scalar of NumPy would be multiplied in its own type.
    if isinstance(time_s, Integral):
        return int(time_s) * _NS_PER_S
    if not isinstance(time_s, Real | Decimal):
        raise TypeError(f"{path!r}: mtime is a number of seconds, not {time_s!r}")
    time_ns = float(time_s) * _NS_PER_S
    if not math.isfinite(time_ns):
        raise ValueError(f"{path!r}: mtime {time_s} is not a valid time")
    return round(time_ns)


_writers: weakref.WeakSet[PackWriter] = weakref.WeakSet()


def _write_pending() -> None:
    """Leave a forked child nothing to write: it would do so at an offset that both share."""
    for writer in list(_writers):
        if writer._spool is not None:
            with contextlib.suppress(OSError, ValueError):  # the parent meets it again
                writer._spool.flush()


os.register_at_fork(before=_write_pending)
