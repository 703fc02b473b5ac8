"""Drops the pages of a file from the page cache."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

_CACHESTAT = 451  # on every architecture; Linux 6.5
_TIMEOUT_S = 60.0
_libc = ctypes.CDLL(None)


def forget_pages(path: Path) -> None:
    """Make the next read wait for the disk. No process may read the file meanwhile.

    A page stays while the kernel reads it, as with readahead after a header was read. And a reader
    that finds some pages in sequence makes the kernel read the others ahead, before ffrfs does.
    """
    begun_s = time.monotonic()
    while drop_pages(path):
        assert time.monotonic() - begun_s < _TIMEOUT_S, f"{path}: its pages stay in memory"
        time.sleep(0.01)


def drop_pages(path: Path) -> int:
    """Drop what can be dropped now; return how many pages stay (0 if the kernel cannot tell)."""
    everything, found = (ctypes.c_uint64 * 2)(), (ctypes.c_uint64 * 5)()
    with path.open("rb") as file:
        os.fdatasync(file.fileno())  # dirty pages stay otherwise
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        failed = _libc.syscall(_CACHESTAT, file.fileno(), everything, found, 0)
    return 0 if failed else found[0]
