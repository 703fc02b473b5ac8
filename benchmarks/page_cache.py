"""The kernel's page cache: filling it, emptying it, and counting what it holds of a file.

cachestat(2) (Linux 6.5) counts exactly the pages of one open file, and none of other programs.
"Cached" in /proc/meminfo would count those of all programs, and mincore(2) needs every file
mapped into memory.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CHUNK_BYTES = 1 << 20
DROP = Path("/proc/sys/vm/drop_caches")
DENTRIES_AND_INODES = 2
EVERYTHING = 3

_CACHESTAT = 451  # the number of the system call, on every architecture
_libc = ctypes.CDLL(None, use_errno=True)


def why_not_drop() -> str:
    """Return why caches cannot be dropped here; "" if they can."""
    return "" if os.access(DROP, os.W_OK) else "dropping the kernel's caches needs root"


def drop(what: int = EVERYTHING) -> None:
    os.sync()  # pages that are not yet written are not dropped
    DROP.write_text(str(what))


def fill(paths: Iterable[Path]) -> None:
    """Read files through, so that their pages are cached."""
    buffer = bytearray(CHUNK_BYTES)
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def forget(path: Path) -> None:
    """Drop the pages of one file, which no process has mapped; this needs no privilege."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def why_not_count() -> str:
    """Return why cached pages cannot be counted here; "" if they can."""
    with Path("/proc/self/exe").open("rb") as file:
        try:
            cached_bytes(file.fileno())
        except OSError as error:
            return f"cachestat(2): {error.strerror} (it came with Linux 6.5)"
    return ""


def cached_bytes(fd: int) -> int:
    """Return the bytes of memory that hold pages of this file."""
    whole = (ctypes.c_uint64 * 2)(0, 0)  # offset and length; length 0 is "to the end"
    counts = (ctypes.c_uint64 * 5)()  # cached, dirty, writeback, evicted, recently evicted
    if _libc.syscall(_CACHESTAT, fd, whole, counts, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return counts[0] * PAGE_BYTES
