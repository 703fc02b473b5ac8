"""follow: resolves a path in a pack through the pack's own symbolic links.

It never leaves the pack: a target that is absolute, or climbs above the root, is not found.

Not here: paths without links in them (native core).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ffrfs._native import Volume

_LINK_LIMIT = 40  # that of Linux


def follow(volume: Volume, path: bytes) -> int:
    """Return the inode that "a/b" leads to, which is not a link; 0 if there is none."""
    ino = volume.resolve(path)
    if ino != 0 and not volume.target(ino):
        return ino
    if b".." in path.split(b"/"):  # only targets of links may climb
        return 0
    return _walk(volume, path)


def _walk(volume: Volume, path: bytes) -> int:
    at = b""  # the resolved part of the path, without links
    ino = volume.resolve(at)
    left = path.split(b"/")[::-1]
    links = 0
    while left:
        name = left.pop()
        if name in (b"", b"."):
            continue
        if name == b"..":
            if not at:
                return 0
            at = os.path.dirname(at)
            ino = volume.resolve(at)
            continue
        inner = os.path.join(at, name)
        ino = volume.resolve(inner)
        if ino == 0:
            return 0
        target = volume.target(ino)
        if not target:
            at = inner
            continue
        links += 1
        if links > _LINK_LIMIT or target.startswith(b"/"):
            return 0
        left += target.split(b"/")[::-1]
        ino = volume.resolve(at)
    return ino
