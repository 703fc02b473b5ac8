"""From a path, or a record's number, to the text of a hint; and which mount a path is of.

A hint is a path from the root of the mount, which begins with "/", or a record's number
in decimal. What is in a mount of ours is never touched to find out, nor is the mount: its
place is looked up in the kernel's table, and links are followed only on the way there.

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
_LINKS_MAX = 40  # as the kernel's own limit


class HintPaths:
    """Makes hints for one mount: the given one, or that of the first path that is in one."""

    def __init__(self, mountpoint: str | None) -> None:
        """`mountpoint` is canonical. None: relative paths are of the working directory of now."""
        self.mountpoint = mountpoint
        self._base = os.getcwdb() if mountpoint is None else os.fsencode(mountpoint)
        # Of several mounts at one place the last one counts.
        places = {entry.mountpoint: entry.is_ours for entry in read_mount_table()}
        self._mountpoints = {os.fsencode(place) for place, is_ours in places.items() if is_ours}
        self._mountpoints |= set() if mountpoint is None else {self._base}
        self._place_of = functools.lru_cache(_DIRECTORIES_KEPT)(self._find_place)

    @property
    def has_mounts(self) -> bool:
        """Whether there is any mount of ours."""
        return bool(self._mountpoints)

    def hint(self, hinted: Hinted) -> bytes | None:
        """The hint's text; None: nothing of the mount can be of that name, or number.

        TypeError: neither a path nor a number. ValueError: a number, of no known mount.
        """
        if not isinstance(hinted, str | bytes | os.PathLike):
            number = operator.index(hinted)
            if self.mountpoint is None:
                raise ValueError(f"record {number}: name its mountpoint, too")
            return b"%d" % number if number >= 0 else None
        path = os.path.normpath(os.path.join(self._base, os.fsencode(hinted)))
        path = b"/" + path.lstrip(b"/")  # POSIX has "//" mean something else
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
        """(mount point, path from there) of a directory in a mount of ours."""
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
    """Itself and those above it, the longest first; without the root."""
    while len(directory) > 1:
        yield directory
        directory = os.path.dirname(directory)


def _follow_first_link(directory: bytes) -> bytes | None:
    """With the first link on the way replaced by what it says; None: there is none."""
    for prefix in reversed(list(_prefixes(directory))):
        try:
            link = os.readlink(prefix)
        except OSError:  # not a link, or not there
            continue
        target = os.path.join(os.path.dirname(prefix), link)
        return os.path.normpath(target + directory[len(prefix) :])
    return None
