"""The SHA-256 of a file on the disk, if it still is the file that was listed."""

from __future__ import annotations

import hashlib
import os
import stat

from ffrfs.errors import PackError

_PIECE_SIZE = 1 << 20


def file_digest(path: bytes, size: int) -> bytes:
    """Raises PackError if it is not, or no longer, a regular file of `size` bytes."""
    # O_NONBLOCK: a FIFO that took the file's place must not hold us.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise PackError(f"{os.fsdecode(path)}: is no longer a regular file")
        digest = hashlib.sha256()
        read_size = 0
        while piece := os.read(fd, min(_PIECE_SIZE, size + 1 - read_size)):
            digest.update(piece)
            read_size += len(piece)
            if read_size > size:
                break
    finally:
        os.close(fd)
    if read_size != size:
        raise PackError(
            f"{os.fsdecode(path)}: changed size while it was packed (was {size} bytes); pack again"
        )
    return digest.digest()
