"""The number of bytes that a cache directory holds, for all processes that fill it.

The file `usage` has one number, changed under a lock that is held for a moment. The number may
be too high: it includes bytes that are about to be written, also of processes that were killed.
Before blocks are evicted, the files themselves are counted (eviction.py).

Concurrency: any thread.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable

from ffrfs.cache.locks import locked

_HEAD = struct.Struct("<8sq")
_MAGIC = b"ffrfscu1"
SIZE = _HEAD.size

# These bytes of the file are locked: to change the number, and to evict.
_NUMBER_AT, EVICTION_AT = 1 << 62, (1 << 62) + 1
# A stopped process may hold the lock longer: then the number is changed without the lock.
_NUMBER_S = 0.5


class UsageFile:
    def __init__(self, fd: int) -> None:
        """Take ownership of the descriptor. Raises ValueError if the file is not one of ours."""
        self.fd = fd
        self._mutex = threading.Lock()
        if os.fstat(fd).st_size not in (0, SIZE):
            raise ValueError("not a file of ffrfs")
        self._read()

    def _read(self) -> int:
        raw = os.pread(self.fd, SIZE, 0)
        if len(raw) < SIZE or not any(raw):
            return 0  # the file is new, or was emptied by a crash of the machine
        magic, number = _HEAD.unpack(raw)
        if magic != _MAGIC:
            raise ValueError("not a file of ffrfs")
        return max(int(number), 0)

    def read(self) -> int:
        try:
            return self._read()
        except ValueError:  # another program has overwritten it: the next count repairs it
            return 0

    def add(self, size: int) -> int:
        """Add to the number; return the new one."""
        return self.change(lambda before: before + size)

    def change(self, change: Callable[[int], int]) -> int:
        with self._mutex, locked(self.fd, _NUMBER_AT, _NUMBER_S):
            number = max(change(self.read()), 0)
            os.pwrite(self.fd, _HEAD.pack(_MAGIC, number), 0)
            return number
