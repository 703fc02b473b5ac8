"""The members of a zip file, read by the standard library's zipfile.

Not here: whether names and links may be packed (archive_tree.py).
Concurrency: one thread.
"""

from __future__ import annotations

import calendar
import stat
import struct
import zipfile
from collections.abc import Iterator
from typing import BinaryIO

from ffrfs.errors import PackError
from ffrfs.packing.sources.archive_member import PIECE_SIZE, TARGET_LIMIT, Kind, Member
from ffrfs.packing.sources.contents import SPECIAL_KINDS

_ENCRYPTED = 0x1
_UNIX = 3
_OFFSET_MAX = (1 << 63) - 1
# The extra field "extended timestamp" of Info-ZIP: flags, and if bit 0 is set the mtime.
_TIME_FIELD = 0x5455
_HAS_MTIME = 0x1


class ZipMembers:
    """A Members over `stream`, which holds a zip file."""

    def __init__(self, archive: str, stream: BinaryIO) -> None:
        self._archive = archive
        self._zip = zipfile.ZipFile(stream)
        self._info: zipfile.ZipInfo | None = None

    def __iter__(self) -> Iterator[Member]:
        for info in self._zip.infolist():
            self._info = info
            if info.flag_bits & _ENCRYPTED:
                raise PackError(
                    f"{self._archive}: {info.filename!r} is encrypted; decrypt the archive first"
                )
            if info.header_offset > _OFFSET_MAX:
                raise PackError(
                    f"{self._archive}: {info.filename!r} is said to begin at byte "
                    f"{info.header_offset}, where no file has any: the archive is damaged"
                )
            yield self._member(info)

    def pieces(self) -> Iterator[bytes]:
        assert self._info is not None
        with self._zip.open(self._info) as file:
            while piece := file.read(PIECE_SIZE):
                yield piece

    def _member(self, info: zipfile.ZipInfo) -> Member:
        name = info.orig_filename  # because `filename` ends at a NUL
        # The permissions of other systems are unknown.
        mode = info.external_attr >> 16 if info.create_system == _UNIX else 0
        mtime_ns = _time_ns(info)
        kind = stat.S_IFMT(mode)
        if info.is_dir() or kind == stat.S_IFDIR:
            return Member(name, Kind.FOLDER, 0, mode & 0o777 or 0o755, mtime_ns)
        if kind == stat.S_IFLNK:
            return Member(name, Kind.SYMLINK, 0, 0o777, mtime_ns, self._target(info))
        if kind in SPECIAL_KINDS:
            return Member(name, Kind.SPECIAL, target=f"is {SPECIAL_KINDS[kind]}")
        return Member(name, Kind.FILE, info.file_size, mode & 0o777 or 0o644, mtime_ns)

    def _target(self, info: zipfile.ZipInfo) -> str:
        if info.file_size > TARGET_LIMIT:
            raise PackError(
                f"{self._archive}: {info.filename!r} is a symbolic link of {info.file_size} bytes, "
                "longer than any path"
            )
        return b"".join(self.pieces()).decode("utf-8", "surrogateescape")


def _time_ns(info: zipfile.ZipInfo) -> int:
    """Return the time in UTC; without one, the archive's local time taken for UTC."""
    time_s = _extended_time_s(info.extra)
    if time_s is None:
        try:
            time_s = calendar.timegm(info.date_time)
        except ValueError:  # for example month 0
            return 0
    return time_s * 1_000_000_000


def _extended_time_s(extra: bytes) -> int | None:
    while len(extra) >= 4:
        field, size = struct.unpack_from("<HH", extra)
        data = extra[4 : 4 + size]
        if field == _TIME_FIELD and len(data) >= 5 and data[0] & _HAS_MTIME:
            time_s: int = struct.unpack_from("<i", data, 1)[0]
            return time_s
        extra = extra[4 + size :]
    return None
