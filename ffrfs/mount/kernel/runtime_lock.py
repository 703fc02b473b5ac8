"""The lock of a runtime directory, which code that makes or removes a mount holds meanwhile.

A process that hangs keeps the lock for as long. So nobody waits for it without limit: commands
fail then (claimed()), and daemons go on without it.

Concurrency: blocking, no state. Not here: the files in the directory (state.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

from ffrfs.errors import MountError
from ffrfs.mount.kernel.system_call import flock

LIMIT_S = 5.0  # less than `ffrfs umount` may take
_PAUSE_S = 0.02


@contextlib.contextmanager
def locked(directory: str, *, wait_s: float = LIMIT_S) -> Iterator[bool]:
    """Hold the directory's lock, which ends with the process at the latest; yield whether it does.

    If the directory was removed under a daemon, there is no lock, and none is needed. A lock that
    another process holds is waited for up to `wait_s`.
    """
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        yield False
        return
    try:
        yield _take_lock(fd, wait_s)
    finally:
        os.close(fd)


@contextlib.contextmanager
def claimed(directory: str, *, wait_s: float = LIMIT_S) -> Iterator[None]:
    """Hold the lock as locked() does; raise MountError if another process keeps it."""
    with locked(directory, wait_s=wait_s) as is_held:
        if not is_held and os.path.isdir(directory):
            text = f"another process has kept its lock for {wait_s:g} s; find it with: lslocks"
            raise MountError(f"{directory}: {text}")
        yield


def _take_lock(fd: int, wait_s: float) -> bool:
    deadline_s = time.monotonic() + wait_s
    while True:
        with contextlib.suppress(BlockingIOError):
            flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(_PAUSE_S)
