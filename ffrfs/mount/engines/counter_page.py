"""The counters of a mount: named numbers that its engine changes while the daemon reads them.

The layout is that of native/stats/counter_page.h. A worker writes the page, and a worker reads
hostile packs: so the daemon checks all that it finds in the page.

Concurrency: any thread; values are as of some moment, not all of the same one.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct

from ffrfs.errors import naming
from ffrfs.mount.kernel.system_call import memfd_create

PAGE_SIZE = 64 << 10
FILE_SIZE = PAGE_SIZE + 4096 + (1 << 30)
_MAGIC = b"ffrfscnt"
_HEADER = struct.Struct("<8sQ")
_ROW = struct.Struct("<32sQ")
_VALUE_SIZE = 8

Counters = dict[str, list[int]]


class CounterPage:
    """Memory that a worker maps, too. The page owns the descriptor until close()."""

    def __init__(self, kept: int | None = None) -> None:
        """`kept`: the descriptor of a page that is in use."""
        if kept is None:
            kept = self._new()
        self.fd = kept
        self._memory = mmap.mmap(self.fd, PAGE_SIZE, prot=mmap.PROT_READ)

    @staticmethod
    def _new() -> int:
        fd = memfd_create("ffrfs-counters", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        with naming("a file in memory for counters"):
            os.truncate(fd, PAGE_SIZE)
        # Behind it a hole, which takes no memory (coverage.py). A limit of the user may forbid it.
        with contextlib.suppress(OSError):
            os.truncate(fd, FILE_SIZE)
        # Sealed, because a worker that shortened it would cause a SIGBUS in the daemon.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        return fd

    def read(self) -> Counters:
        return parse(self._memory[:])

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)


def first_value(counters: Counters, name: str) -> int:
    """Return the first value of the row, or 0 if it is missing."""
    return next(iter(counters.get(name, ())), 0)


def parse(page: bytes) -> Counters:
    """Return the values of each row by its name; invalid parts of a page are left out."""
    counters: Counters = {}
    if len(page) < _HEADER.size:
        return counters
    magic, end = _HEADER.unpack_from(page)
    if magic != _MAGIC:  # the engine has counted nothing yet
        return counters
    end = min(end, len(page))
    position = _HEADER.size
    while position + _ROW.size <= end:
        name, count = _ROW.unpack_from(page, position)
        position += _ROW.size
        if count > (end - position) // _VALUE_SIZE:
            break
        values = struct.unpack_from(f"<{count}Q", page, position)
        counters[name.rstrip(b"\0").decode("ascii", "backslashreplace")] = list(values)
        position += count * _VALUE_SIZE
    return counters
