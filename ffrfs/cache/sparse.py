"""Holes in files: punches them where a block is removed, and finds them.

No state: safe from any thread.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator

_libc = ctypes.CDLL(None, use_errno=True)
# Both take offsets of 64 bits on every machine; musl has only the plain name.
_fallocate = getattr(_libc, "fallocate64", None) or _libc.fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_PUNCH = 0x01 | 0x02  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE


def punch_hole(fd: int, offset: int, size: int) -> None:
    """Free the space of these bytes, which read as zeros afterwards. Raises OSError."""
    while _fallocate(fd, _PUNCH, offset, size) != 0:
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))


def data_ranges(fd: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of the parts that are no hole; a file that is too short ends in a hole."""
    while begin < end:
        try:
            begin = os.lseek(fd, begin, os.SEEK_DATA)
            hole = os.lseek(fd, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # the rest is a hole
                return
            raise
        if begin >= end or hole <= begin:
            return
        yield begin, min(hole, end)
        begin = hole


def is_full(error: OSError) -> bool:
    """Return whether space is lacking, on the file system or in the user's quota there."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
