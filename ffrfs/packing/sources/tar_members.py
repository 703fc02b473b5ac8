"""The members of a tar file, read by the standard library's tarfile, front to end.

tarfile believes sizes and offsets, and takes a damaged header for the end; it reads through a
TarStream, which notices that.

Not here: whether names and links may be packed (archive_tree.py).
Concurrency: one thread.
"""

from __future__ import annotations

import stat
import tarfile
from collections.abc import Iterator
from decimal import Decimal
from typing import BinaryIO, Self, cast

from ffrfs.errors import PackError, is_bad_offset
from ffrfs.packing.sources.archive_member import PIECE_SIZE, Kind, Member
from ffrfs.packing.sources.contents import SPECIAL_KINDS, storable_time_ns
from ffrfs.printable import quoted

_BLOCK_SIZE = 512
# tarfile reads long names and the like in one piece, whatever size they announce.
_READ_LIMIT = PIECE_SIZE
# Limits all headers of a member together, because tarfile keeps the whole map of a sparse file.
_HEADERS_LIMIT = 16 << 20
_GLOBAL_KEYS_LIMIT = 1000  # tarfile copies them for each member
# tarfile seeks back by less than a block, to see if a member's last byte is there.
_STEP_BACK_LIMIT = _BLOCK_SIZE
_TIME_LIMIT_S = 1 << 63  # times of files are below
_SHOWN = 40  # so many characters of a wrong size are shown

_SPECIAL_TYPES = {
    tarfile.FIFOTYPE: stat.S_IFIFO,
    tarfile.CHRTYPE: stat.S_IFCHR,
    tarfile.BLKTYPE: stat.S_IFBLK,
}


class TarMembers:
    """A Members over `stream`, which holds a tar file and is only ever read forwards."""

    def __init__(self, archive: str, stream: BinaryIO) -> None:
        self._archive = archive
        self._stream = TarStream(archive, stream)
        self._tar = tarfile.TarFile(
            fileobj=cast(BinaryIO, self._stream),
            encoding="utf-8",
            errors="surrogateescape",
            tarinfo=_TarInfo,
        )
        self._info: tarfile.TarInfo | None = None

    def __iter__(self) -> Iterator[Member]:
        while (info := self._next()) is not None:
            self._tar.members.clear()  # type: ignore[attr-defined] # it keeps them all
            self._info = info
            self._check_size(info)
            yield _member(info)
        if not self._stream.is_at_end_mark:
            raise PackError(
                f"{self._archive}: is damaged or was cut off: no member begins at byte "
                f"{self._tar.offset}, nor is it marked as the end"
            )
        while self._stream.read(PIECE_SIZE):
            pass  # the compressed stream has its checksum at the end

    def _next(self) -> tarfile.TarInfo | None:
        self._stream.headers_left = _HEADERS_LIMIT
        info = self._tar.next()
        self._stream.headers_left = None
        if len(self._tar.pax_headers) > _GLOBAL_KEYS_LIMIT:
            raise PackError(
                f"{self._archive}: has over {_GLOBAL_KEYS_LIMIT:,} keys of global headers"
            )
        return info

    def _check_size(self, info: tarfile.TarInfo) -> None:
        """Refuse a size that is no number; tarfile would take it for 0, and read on in the file."""
        said = info.pax_headers.get("size")
        if said is not None and not (said.isascii() and said.isdigit()):
            raise PackError(
                f"{self._archive}: {quoted(info.name)}: its header has the size {said[:_SHOWN]!r}, "
                "which is not a number of bytes: the archive is damaged"
            )
        if info.issparse() and not self._is_map_sound(info, said):
            raise PackError(
                f"{self._archive}: {quoted(info.name)}: the map of a sparse file, which says where "
                "its bytes belong, is wrong: the archive is damaged"
            )

    def _is_map_sound(self, info: tarfile.TarInfo, said: str | None) -> bool:
        """Return whether the parts ascend within the file, and all of their bytes are stored."""
        assert isinstance(info, _TarInfo)
        stored_size = int(said) if said is not None else info.stored_size
        padding = -stored_size % _BLOCK_SIZE
        left = self._tar.offset - padding - info.offset_data  # the next header comes after these
        end = 0
        for offset, size in cast("list[tuple[int, int]]", info.sparse):
            if size == 0:  # tarfile also gives places in the map that are not in use
                continue
            if size < 0 or offset < end or size > left:
                return False
            end = offset + size
            left -= size
        return end <= info.size

    def pieces(self) -> Iterator[bytes]:
        info = self._info
        assert info is not None
        if info.issparse():
            file = self._tar.extractfile(info)
            assert file is not None
            while piece := file.read(PIECE_SIZE):
                yield piece
            return
        self._stream.seek(info.offset_data)
        left = info.size
        while left > 0 and (piece := self._stream.read(min(left, PIECE_SIZE))):
            left -= len(piece)
            yield piece


class _TarInfo(tarfile.TarInfo):
    """A TarInfo that keeps the size in the header: of a sparse file tarfile replaces it."""

    stored_size = 0

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        info = super().frombuf(buf, encoding, errors)
        info.stored_size = info.size
        return info


class TarStream:
    """The stream that tarfile reads: bounded, never far back; it remembers the last bytes read."""

    def __init__(self, archive: str, stream: BinaryIO) -> None:
        self._archive = archive
        self._stream = stream
        self._position = 0
        self._last = b""
        self.headers_left: int | None = _HEADERS_LIMIT  # bytes; None: what is read is no header

    @property
    def is_at_end_mark(self) -> bool:
        """Return whether the last read was a block of zeros, which ends an archive."""
        return self._last == bytes(_BLOCK_SIZE)

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _READ_LIMIT:
            raise PackError(
                f"{self._archive}: is damaged: a header before byte {self._position} says that "
                f"it goes on for {size} bytes"
            )
        self._last = self._stream.read(size)
        self._position += len(self._last)
        if self.headers_left is not None:
            self.headers_left -= len(self._last)
            if self.headers_left < 0:
                raise PackError(
                    f"{self._archive}: is damaged: the headers of a member before byte "
                    f"{self._position} have over {_HEADERS_LIMIT:,} bytes"
                )
        return self._last

    def seek(self, position: int) -> int:
        if position < self._position - _STEP_BACK_LIMIT:
            raise PackError(
                f"{self._archive}: is damaged: a header leads back from byte {self._position} to "
                f"byte {position}"
            )
        if position != self._position:
            try:
                self._position = self._stream.seek(position)
            except (ValueError, OSError) as error:
                if not is_bad_offset(error):
                    raise
                raise PackError(
                    f"{self._archive}: is damaged: a header before byte {self._position} says that "
                    f"the next one begins at byte {position}, where no file has any"
                ) from None
        return self._position

    def tell(self) -> int:
        return self._position


def _member(info: tarfile.TarInfo) -> Member:
    mode = info.mode & 0o777
    mtime_ns = _time_ns(info)
    if info.isreg():
        return Member(info.name, Kind.FILE, info.size, mode, mtime_ns)
    if info.isdir():
        return Member(info.name, Kind.FOLDER, 0, mode, mtime_ns)
    if info.issym():
        return Member(info.name, Kind.SYMLINK, 0, mode, mtime_ns, info.linkname)
    if info.islnk():
        return Member(info.name, Kind.HARD_LINK, 0, mode, mtime_ns, info.linkname)
    known = _SPECIAL_TYPES.get(info.type)
    what = f"is {SPECIAL_KINDS[known]}" if known else f"is of an unknown type, {info.type!r}"
    return Member(info.name, Kind.SPECIAL, target=what)


def _time_ns(info: tarfile.TarInfo) -> int:
    if not abs(info.mtime) < _TIME_LIMIT_S:  # also false for NaN
        return 0
    if isinstance(info.mtime, int):
        return storable_time_ns(info.mtime * 1_000_000_000)
    # A float of today's date has no room for nanoseconds; its text has.
    text = info.pax_headers.get("mtime")
    return storable_time_ns(int((Decimal(text) if text else Decimal(info.mtime)).scaleb(9)))
