"""The kernel's list of mounts, which can be read without touching the mounts themselves.

A call to a mount (stat) may hang when its daemon does; reading /proc/self/mountinfo never
does. No state: safe from any thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

MOUNTINFO = "/proc/self/mountinfo"
FSTYPE = "fuse.ffrfs"

_OWNER = re.compile(rb"(?:^|,)user_id=(\d+),group_id=(\d+)(?:,|$)")
_FOR_ALL = re.compile(rb"(?:^|,)allow_other(?:,|$)")
_OCTAL = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True)
class MountEntry:
    """A line of mountinfo (proc(5))."""

    mountpoint: str
    fstype: str
    source: str
    device: str  # "major:minor", unique to a file system while it lives
    user_id: int | None = None  # the user that mounted; None: not a FUSE mount
    group_id: int | None = None
    allows_others: bool = False  # -o allow_other: the kernel sends it requests of any user
    # It stays when a directory above is renamed, and is another one in another mount namespace.
    mount_id: int = field(default=0, compare=False)

    @property
    def is_ours(self) -> bool:
        return self.fstype == FSTYPE

    @property
    def is_anothers(self) -> bool:
        """Whether another user has mounted it."""
        return self.user_id not in (None, os.geteuid())


def read_mount_table() -> list[MountEntry]:
    """Return all mounts that this process sees; of a place, the topmost one comes last."""
    with open(MOUNTINFO, "rb") as file:
        return [_entry(line) for line in file]


def our_places(table: Iterable[MountEntry]) -> set[str]:
    """Return mount points and devices of the mounts of ffrfs; one that was moved has its device."""
    return {word for entry in table if entry.is_ours for word in (entry.mountpoint, entry.device)}


def mount_at(mountpoint: str, pid: int | None = None) -> MountEntry | None:
    """Return the topmost mount at the place, whose name must be canonical (mountpoint.py).

    `pid`: as that process sees it; None also if the process has ended. Only the lines of that
    place are parsed: callers ask for each of a thousand mounts.
    """
    place = os.fsencode(mountpoint)
    try:
        with open(MOUNTINFO if pid is None else f"/proc/{pid}/mountinfo", "rb") as file:
            found = [line for line in file if _unescaped(line.split(b" ", 5)[4]) == place]
    except OSError:
        if pid is None:
            raise
        return None
    return _entry(found[-1]) if found else None


def _entry(line: bytes) -> MountEntry:
    left, _, right = line.partition(b" - ")
    fields, tail = left.split(b" "), right.split(b" ")
    options = tail[-1].rstrip()
    owner = _OWNER.search(options)
    return MountEntry(
        mountpoint=_text(fields[4]),
        fstype=_text(tail[0]),
        source=_text(tail[1]),
        device=_text(fields[2]),
        user_id=int(owner[1]) if owner else None,
        group_id=int(owner[2]) if owner else None,
        allows_others=_FOR_ALL.search(options) is not None,
        mount_id=int(fields[0]),
    )


def _text(escaped: bytes) -> str:
    return os.fsdecode(_unescaped(escaped))


def _unescaped(escaped: bytes) -> bytes:
    """Undo the kernel's escapes of space, tab, newline and backslash."""
    if b"\\" not in escaped:
        return escaped
    return _OCTAL.sub(lambda match: bytes([int(match[1], 8)]), escaped)
