"""The control group that this process is in: what memory it may have, and which files say so.

There are two versions. In the second all controllers have one tree; the first has a tree
for memory alone; a machine may have both. A container may see only its own part of a tree,
mounted as if that were all.

Concurrency: no state. A read waits for nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

SELF = "/proc/self"
# The first version has no word for "no limit": it tells a number that no machine has.
_NO_LIMIT_BYTES = 1 << 60

_UNIFIED = re.compile(rb"^0::(/.*)$", re.MULTILINE)
_MEMORY = re.compile(rb"^[1-9][0-9]*:(?:[^:\n]*,)?memory(?:,[^:\n]*)?:(/.*)$", re.MULTILINE)
# mountinfo (proc(5)): the root of what is mounted, where, and what it is.
_MOUNT = rb"^\S+ \S+ \S+ (\S+) (\S+) .* - "
_UNIFIED_MOUNT = re.compile(_MOUNT + rb"cgroup2 ", re.MULTILINE)
_MEMORY_MOUNT = re.compile(_MOUNT + rb"cgroup \S+ (?:\S*,)?memory(?:,\S*)?$", re.MULTILINE)


@dataclass(frozen=True)
class ControlGroup:
    """One group, as a directory below the place where its tree is mounted."""

    top: str
    path: str  # "" is the topmost that is seen from here

    @property
    def folder(self) -> str:
        return self.top + self.path

    def with_those_above(self) -> Iterator[str]:
        """The directories of all whose limits bind this one."""
        path = self.path
        while path:
            yield self.top + path
            path = path.rpartition("/")[0]
        yield self.top


def unified_group(proc: str = SELF) -> ControlGroup | None:
    """Ours in the tree of version 2; None: there is none."""
    return _find(proc, _UNIFIED, _UNIFIED_MOUNT)


def memory_limit_files(proc: str = SELF) -> list[str]:
    """The files that say what all processes of our group, and of those above, may have."""
    trees = (
        (unified_group(proc), "memory.max"),
        (_find(proc, _MEMORY, _MEMORY_MOUNT), "memory.limit_in_bytes"),
    )
    paths = [
        os.path.join(folder, name)
        for group, name in trees
        if group is not None
        for folder in group.with_those_above()
    ]
    # The topmost group of all has none.
    return [path for path in paths if os.path.exists(path)]


def smallest_limit_bytes(files: list[str]) -> int | None:
    """What they tell now; None: there is no limit."""
    limits = [limit for path in files if (limit := _read_limit(path)) is not None]
    return min(limits, default=None)


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
    if b".." in (root + path).split(b"/"):  # not below what is seen from here
        return None
    # A container may see its own group as the topmost, and be told its name on the host.
    below = path.removeprefix(root) if (path + b"/").startswith(root + b"/") else b""
    return ControlGroup(os.fsdecode(place[2]), os.fsdecode(below))


def _read_limit(path: str) -> int | None:
    """None: there is no limit, or the group has gone."""
    try:
        with open(path, "rb") as file:
            limit = int(file.read(32))
    except (OSError, ValueError):  # "max"
        return None
    return limit if limit < _NO_LIMIT_BYTES else None
