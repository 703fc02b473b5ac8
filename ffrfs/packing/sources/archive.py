"""An archive to pack: tar, also compressed, or zip; read from front to end, twice.

The first pass reads names and sizes, the second one hands out the bytes, in the order of the
archive. A pipe is first copied to a file without a name beside the target. Nothing is unpacked to
disk; memory holds the names, and 1 MiB.

Not here: the formats (tar_members.py, zip_members.py), the tree and the list of members
(archive_tree.py, archive_list.py).
Concurrency: one thread.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import lzma
import os
import stat
import struct
import sys
import tarfile
import tempfile
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import BinaryIO, TypeAlias, cast

from ffrfs._native import Writer
from ffrfs.errors import FfrfsError, PackError, is_bad_offset, naming
from ffrfs.packing.sources.archive_list import ArchiveList
from ffrfs.packing.sources.archive_member import PIECE_SIZE, Members
from ffrfs.packing.sources.archive_progress import ArchiveProgress, WatchedFile
from ffrfs.packing.sources.archive_tree import ArchiveTree
from ffrfs.packing.sources.contents import Contents, Tick, digest_of, ticking
from ffrfs.packing.sources.options import PackOptions
from ffrfs.packing.sources.order import batches
from ffrfs.packing.sources.path_list import STANDARD_INPUT
from ffrfs.packing.sources.selection import Selection
from ffrfs.packing.sources.tar_members import TarMembers
from ffrfs.packing.sources.zip_members import ZipMembers
from ffrfs.printable import quoted

_ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")  # the second one is that of an empty archive
_DECOMPRESSORS: dict[bytes, Callable[[BinaryIO], object]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
}
_ZSTANDARD_MAGIC = b"\x28\xb5\x2f\xfd"
_COMPRESSION_MAGICS = (*_DECOMPRESSORS, _ZSTANDARD_MAGIC)
_MAGIC_SIZE = 6

Pieces: TypeAlias = Iterator[bytes]

_DIGEST_SIZE = hashlib.sha256().digest_size

# Exceptions of the libraries for archives that are damaged or unknown.
_DAMAGE_ERRORS = (
    *(tarfile.TarError, zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError),
    *(EOFError, ArithmeticError, ValueError, IndexError, struct.error),
    *(NotImplementedError, RuntimeError, RecursionError),
)


class ArchiveSource(Contents):
    """The files to pack of one archive.

    `archive` is a path, or "-". `target`: the path of the pack. `progress` is called for the work
    before append(). Raises PackError, OSError.
    """

    is_stream = True

    def __init__(
        self,
        archive: str,
        options: PackOptions,
        *,
        target: str,
        progress: ArchiveProgress,
    ) -> None:
        self.name = "standard input" if archive == STANDARD_INPUT else archive
        self._place = os.path.dirname(os.path.realpath(target))
        self._damage_errors: tuple[type[Exception], ...] = _DAMAGE_ERRORS
        self._ordinals = array("Q")  # of each file of the tree: the number of its member
        self._digests = bytearray() if options.dedup else None  # for digests()
        self._progress = progress
        self._files: Iterator[tuple[int, Iterator[bytes]]] | None = None
        self._open_files = contextlib.ExitStack()
        selection = Selection(options.include, options.exclude, options.listed)
        try:
            self._file = self._open_files.enter_context(self._open(archive))
            self._state = _state(self._file)
            with self._naming_damage():
                self._magic = self._file.read(_MAGIC_SIZE)
                tree = self._read_names(ArchiveTree(self.name, selection, options))
            selection.check_matched(self.name)
            self._listing = ArchiveList(tree)
        except BaseException:
            self.close()
            raise
        self.entries = self._listing.entries
        self.skipped = tree.skipped
        self.links = self._listing.links

    def share(self) -> None:
        self._listing.share()

    def number(self) -> None:
        self._listing.number()

    def append(self, writer: Writer, first: int, count: int, jobs: int, tick: Tick) -> None:
        """Append one run of records after the other; ignores `jobs`, because it is a stream."""
        sizes = self.entries.sizes()
        self.refuse_too_large(
            sum(int(sizes[file]) for files in batches(self.entries, first, count) for file in files)
        )
        if self._files is None:
            self._files = self._read_files()
        size = 0
        for done, file in enumerate(chain.from_iterable(batches(self.entries, first, count))):
            # Progress within a large file, too.
            watched = partial(ticking, tick, done, size)
            size += self._append(writer, file, int(sizes[file]), watched)
            tick(done + 1, size)
        if _state(self._file) != self._state:
            raise PackError(f"{self.name}: changed while it was packed; pack again")

    def digests(self, files: Sequence[int], jobs: int) -> Iterator[bytes]:
        assert self._digests is not None
        for file in files:
            start = self._listing.origins[file] * _DIGEST_SIZE
            yield bytes(self._digests[start : start + _DIGEST_SIZE])

    def close(self) -> None:
        self._open_files.close()

    def _open(self, archive: str) -> BinaryIO:
        if archive == STANDARD_INPUT:
            return self._copy(sys.stdin.buffer)
        file = open(archive, "rb")  # noqa: SIM115 - the caller closes it
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file
        with file:
            return self._copy(file)

    def _copy(self, stream: BinaryIO) -> BinaryIO:
        with naming(self._place), contextlib.ExitStack() as cleanup:
            # Some file systems give it a name for a moment: a hidden one, as it may be in a set.
            file = cleanup.enter_context(tempfile.TemporaryFile(dir=self._place, prefix="."))
            while piece := self._read(stream):
                file.write(piece)
                self._progress.copied(file.tell())
            file.seek(0)
            cleanup.pop_all()
            return cast(BinaryIO, file)

    def _read(self, stream: BinaryIO) -> bytes:
        try:
            return stream.read(PIECE_SIZE)
        except OSError as error:
            raise PackError.at(self.name, error.strerror or str(error)) from None

    def _members(self, file: BinaryIO) -> Members:
        """Begin a pass over `file`, which is the archive."""
        file.seek(0)
        if self._magic.startswith(_ZIP_MAGICS):
            return ZipMembers(self.name, file)
        return TarMembers(self.name, self._decompressed(file))

    def _decompressed(self, file: BinaryIO) -> BinaryIO:
        if self._magic.startswith(_ZSTANDARD_MAGIC):
            return self._zstandard(file)
        for magic, decompressed in _DECOMPRESSORS.items():
            if self._magic.startswith(magic):
                return cast(BinaryIO, decompressed(file))
        return file

    def _zstandard(self, file: BinaryIO) -> BinaryIO:
        try:
            import zstandard
        except ImportError:
            raise PackError(
                f"{self.name}: is compressed by Zstandard; to read it: pip install 'ffrfs[zstd]', "
                "or give its content: zstd -dc FILE | ffrfs pack - DST"
            ) from None
        self._damage_errors = (*_DAMAGE_ERRORS, zstandard.ZstdError)
        return cast(
            BinaryIO,
            zstandard.ZstdDecompressor().stream_reader(
                file, read_across_frames=True, closefd=False
            ),
        )

    def _read_names(self, tree: ArchiveTree) -> ArchiveTree:
        reads_all = self._digests is not None or self._magic.startswith(_COMPRESSION_MAGICS)
        self._progress.begin(self._state[0], reads_all)
        watched = WatchedFile(self._file, self._progress.read)
        members = self._members(cast(BinaryIO, watched))
        for ordinal, member in enumerate(members):
            if tree.add(member):
                self._ordinals.append(ordinal)
                self._progress.listed(len(self._ordinals))
                if self._digests is not None:
                    self.refuse_too_large(member.size)  # reading it could take for ever
                    self._digests += digest_of(members.pieces())
        self._progress.end_listing()
        return tree

    def _read_files(self) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Yield the place of each member in the archive, and its bytes."""
        members = self._members(self._file)
        for ordinal, _ in enumerate(members):
            yield ordinal, members.pieces()

    def _append(
        self, writer: Writer, file: int, size: int, watched: Callable[[Pieces], Pieces]
    ) -> int:
        assert self._files is not None
        wanted = self._ordinals[self._listing.origins[file]]
        with self._naming_damage():
            pieces = next((pieces for ordinal, pieces in self._files if ordinal == wanted), None)
            if pieces is None:
                raise PackError(f"{self.name}: changed while it was packed; pack again")
            if size <= PIECE_SIZE:
                content = b"".join(pieces)
                written_size = len(content)
                writer.append(content)
            else:
                written_size = writer.append_pieces(watched(pieces))
        if written_size != size:
            path = os.fsdecode(self.entries.paths([file])[0])
            raise PackError(
                f"{self.name}: {quoted(path)} has {written_size} bytes, not the {size} that are "
                "announced"
            )
        return size

    def refuse_too_large(self, size: int) -> None:
        """Raise PackError if there is no room for `size` bytes: an archive announces anything."""
        room = os.statvfs(self._place)
        if size > room.f_bavail * room.f_frsize:
            raise PackError(
                f"{self.name}: announces {size:,} bytes of files, more than there is room for in "
                f"{self._place}"
            )

    @contextlib.contextmanager
    def _naming_damage(self) -> Iterator[None]:
        try:
            yield
        except FfrfsError:
            raise
        except self._damage_errors as error:
            raise PackError.at(
                self.name, f"not a tar or zip archive, or damaged ({error})"
            ) from None
        except OSError as error:
            if error.filename is not None:
                raise
            if is_bad_offset(error):  # zipfile believes every offset
                raise PackError(
                    f"{self.name}: is damaged: it leads to a place before its own beginning, or "
                    "where no file has any bytes"
                ) from None
            if error.errno is not None:  # an error of the disk
                raise OSError(error.errno, error.strerror, self.name) from None
            # Errors of gzip and bz2 themselves, for damaged data.
            raise PackError(f"{self.name}: is damaged ({error})") from None


def _state(file: BinaryIO) -> tuple[int, int]:
    info = os.fstat(file.fileno())
    return info.st_size, info.st_mtime_ns
