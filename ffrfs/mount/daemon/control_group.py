"""The control group of this process, and its limit of memory.

There are two versions. In version 2 all controllers share one tree; version 1 has a tree
for memory alone; a machine may have both. A container may see only its own part of a tree,
mounted as if it were the whole.

Concurrency: no state. A read waits for nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

SELF = "/proc/self"
# Version 1 has no word for "no limit": its file then has a number beyond any machine's memory.
_NO_LIMIT_BYTES = 1 << 60

_UNIFIED = re.compile(rb"^0::(/.*)$", re.MULTILINE)
_MEMORY = re.compile(rb"^[1-9][0-9]*:(?:[^:\n]*,)?memory(?:,[^:\n]*)?:(/.*)$", re.MULTILINE)
# mountinfo (proc(5)): the root within the file system, the mount point, and the type.
_MOUNT = rb"^\S+ \S+ \S+ (\S+) (\S+) .* - "
_UNIFIED_MOUNT = re.compile(_MOUNT + rb"cgroup2 ", re.MULTILINE)
_MEMORY_MOUNT = re.compile(_MOUNT + rb"cgroup \S+ (?:\S*,)?memory(?:,\S*)?$", re.MULTILINE)


@dataclass(frozen=True)
class ControlGroup:
    """A group, as a directory below the mount point of its tree."""

    top: str
    path: str  # "": the topmost group that this process can see

    @property
    def folder(self) -> str:
        return self.top + self.path

    def with_those_above(self) -> Iterator[str]:
        """Yield the directories of the group and its ancestors, whose limits all apply."""
        path = self.path
        while path:
            yield self.top + path
            path = path.rpartition("/")[0]
        yield self.top


def unified_group(proc: str = SELF) -> ControlGroup | None:
    """Return our group in the tree of version 2, or None if there is no such tree."""
    return _find(proc, _UNIFIED, _UNIFIED_MOUNT)


def memory_limit_bytes(proc: str = SELF) -> int | None:
    """Return the smallest memory limit of our group and its ancestors now; None: no limit."""
    trees = (
        (unified_group(proc), "memory.max"),
        (_find(proc, _MEMORY, _MEMORY_MOUNT), "memory.limit_in_bytes"),
    )
    limits = (
        _read_limit(os.path.join(folder, name))
        for group, name in trees
        if group is not None
        for folder in group.with_those_above()
    )
    return min((limit for limit in limits if limit is not None), default=None)


def _find(proc: str, line: re.Pattern[bytes], mount: re.Pattern[bytes]) -> ControlGroup | None:
    try:
        with open(f"{proc}/cgroup", "rb") as file:
            group = line.search(file.read())
        with open(f"{proc}/mountinfo", "rb") as file:
            place = mount.search(file.read())
    except OSError:
        return None
    if group is None or place is None:
        return None
    root, path = place[1].rstrip(b"/"), group[1].rstrip(b"/")
    if b".." in (root + path).split(b"/"):  # outside of the part that this process can see
        return None
    # A container may see its own group as the topmost one, but get the group's name on the host.
    below = path.removeprefix(root) if (path + b"/").startswith(root + b"/") else b""
    return ControlGroup(os.fsdecode(place[2]), os.fsdecode(below))


def _read_limit(path: str) -> int | None:
    """Return the limit in a file; None if there is none. The host's root group has no file."""
    try:
        with open(path, "rb") as file:
            limit = int(file.read(32))
    except (OSError, ValueError):  # "max"
        return None
    return limit if limit < _NO_LIMIT_BYTES else None
