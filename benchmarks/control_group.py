"""Puts this process and its children into a control group with a memory limit for a while.

The kernel's groups may be of version 1 or 2. The new group is made below the group that this
process is in, and removed afterwards.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

_REMOVE_S = 10  # its last processes may still be ending


def why_not() -> str:
    """Return why no such group can be made; "" if it can."""
    try:
        with limited(1 << 30):
            return ""
    except OSError as error:
        return f"no control group with a limit can be made: {error}"


@contextlib.contextmanager
def limited(limit_bytes: int) -> Iterator[None]:
    parent, limit = _place()
    group = parent / f"ffrfs-benchmark-{os.getpid()}"
    group.mkdir()
    try:
        (group / limit).write_text(str(limit_bytes))
        _join(group)
        yield
    finally:
        _join(parent)
        _remove(group)


def _place() -> tuple[Path, str]:
    own = Path("/proc/self/cgroup").read_text()
    legacy = re.search(r"^\d+:(?:[^:\n]*,)?memory(?:,[^:\n]*)?:(.*)$", own, re.MULTILINE)
    if legacy:
        return Path(f"/sys/fs/cgroup/memory{legacy[1]}"), "memory.limit_in_bytes"
    unified = re.search(r"^0::(.*)$", own, re.MULTILINE)
    return Path(f"/sys/fs/cgroup{unified[1] if unified else ''}"), "memory.max"


def _join(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))


def _remove(group: Path) -> None:
    deadline = time.monotonic() + _REMOVE_S
    while group.exists() and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.05)
