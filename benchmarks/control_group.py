"""A control group with a limit of memory, in which this process and its children are for a while.

The kernel's version of groups may be either. The new one is made below the group that this process
is in, and removed afterwards.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

_REMOVE_S = 10  # what was in it may be ending still


def why_not() -> str:
    """Why there can be none; "" if there can."""
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
