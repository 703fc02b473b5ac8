"""Locks on bytes of a file, between processes: the kernel drops them when the file is closed.

Each lock belongs to an open file description (F_OFD_SETLK), not to a process: two openings
in one process exclude each other, two threads with the same descriptor do not.

Concurrency: no function waits longer than its caller allows.
"""

from __future__ import annotations

import contextlib
import fcntl
import struct
import time
from collections.abc import Iterator

# struct flock: l_type, l_whence (0: from the start), l_start, l_len, l_pid (0 for these
# locks), and padding up to the size of the struct.
_FLOCK = struct.Struct("hhqqi0q")
_LOOK_S = 0.002


def try_lock(fd: int, byte: int, *, shared: bool = False) -> bool:
    """Lock a byte, replacing a lock of `fd`; return False if another open file has it locked."""
    kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, 0, byte, 1, 0))
    except BlockingIOError:
        return False
    return True


def unlock(fd: int, byte: int, count: int = 1) -> None:
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, 0, byte, count, 0))


def is_locked(fd: int, byte: int) -> bool:
    """Return whether another open file has a lock on the byte, shared or not."""
    wanted = _FLOCK.pack(fcntl.F_WRLCK, 0, byte, 1, 0)
    found = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, wanted)
    return bool(_FLOCK.unpack(found)[0] != fcntl.F_UNLCK)


def lock_within(fd: int, byte: int, seconds: float) -> bool:
    """Repeat try_lock() until it succeeds; return False if the time is over."""
    end = time.monotonic() + seconds
    while not try_lock(fd, byte):
        if time.monotonic() >= end:
            return False
        time.sleep(_LOOK_S)
    return True


@contextlib.contextmanager
def locked(fd: int, byte: int, seconds: float) -> Iterator[bool]:
    """Hold the lock in the block; yield False, without the lock, if the time was too short."""
    taken = lock_within(fd, byte, seconds)
    try:
        yield taken
    finally:
        if taken:
            unlock(fd, byte)
