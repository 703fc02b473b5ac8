"""Turns a path, or a record's number, into the text of a hint, and finds the mount of a path.

A hint is a path from the root of the mount, which begins with "/", or a record's number
in decimal. Neither a mount nor a file in it is touched: the kernel's table has the mount points,
and links are followed only on the way to one.

Not here: what a hint is on the wire (hint_stream.py). Concurrency: one thread at a time.
"""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Iterator
from typing import SupportsIndex, TypeAlias

from ffrfs.mount.kernel.mount_table import read_mount_table

PathType: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Hinted: TypeAlias = PathType | SupportsIndex

HINT_SIZE_MAX = 8192  # bytes
_DIRECTORIES_KEPT = 4096
_LINKS_MAX = 40  # the kernel's own limit


class HintPaths:
    """Makes hints for one mount: the given one, or that of the first path that is in one."""

    def __init__(self, mountpoint: str | None) -> None:
        """`mountpoint` is canonical. None: relative paths begin in the working directory of now."""
        self.mountpoint = mountpoint
        self._base = os.getcwdb() if mountpoint is None else os.fsencode(mountpoint)
        # The last of several mounts at one place counts.
        places = {entry.mountpoint: entry.is_ours for entry in read_mount_table()}
        self._mountpoints = {os.fsencode(place) for place, is_ours in places.items() if is_ours}
        self._mountpoints |= set() if mountpoint is None else {self._base}
        self._place_of = functools.lru_cache(_DIRECTORIES_KEPT)(self._find_place)

    @property
    def has_mounts(self) -> bool:
        """Return whether ffrfs has any mount."""
        return bool(self._mountpoints)

    def hint(self, hinted: Hinted) -> bytes | None:
        """Return the hint's text; None: nothing in the mount can have that name, or number.

        Raises TypeError for other types, and ValueError for a number before any path has shown
        which mount it is in.
        """
        if not isinstance(hinted, str | bytes | os.PathLike):
            number = operator.index(hinted)
            if self.mountpoint is None:
                raise ValueError(f"record {number}: name its mountpoint, too")
            return b"%d" % number if number >= 0 else None
        path = os.path.normpath(os.path.join(self._base, os.fsencode(hinted)))
        path = b"/" + path.lstrip(b"/")  # "//" may mean something else in POSIX
        directory, name = os.path.split(path)
        place = self._place_of(directory)
        if place is None:
            return None
        mountpoint, below = place
        if self.mountpoint is None:
            self.mountpoint = mountpoint
        hint = below + b"/" + name
        if mountpoint != self.mountpoint or b"\0" in hint or len(hint) > HINT_SIZE_MAX:
            return None
        return hint

    def _find_place(self, directory: bytes) -> tuple[str, bytes] | None:
        """Return (mount point, path from there) of a directory in a mount of ffrfs."""
        for _ in range(_LINKS_MAX):
            for prefix in _prefixes(directory):
                if prefix in self._mountpoints:
                    return os.fsdecode(prefix), directory[len(prefix) :]
            followed = _follow_first_link(directory)
            if followed is None:
                return None
            directory = followed
        return None


def _prefixes(directory: bytes) -> Iterator[bytes]:
    """Yield the path and the directories above it, the longest first, without the root."""
    while len(directory) > 1:
        yield directory
        directory = os.path.dirname(directory)


def _follow_first_link(directory: bytes) -> bytes | None:
    """Return the path with its first link replaced by the link's target; None: it has no link."""
    for prefix in reversed(list(_prefixes(directory))):
        try:
            link = os.readlink(prefix)
        except OSError:  # not a link, or missing
            continue
        target = os.path.join(os.path.dirname(prefix), link)
        return os.path.normpath(target + directory[len(prefix) :])
    return None
