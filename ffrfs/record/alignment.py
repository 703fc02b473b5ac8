"""checkFsAlign: a question about direct I/O, kept for scripts of the reference API.

ffrfs itself asks the kernel (statx) for the alignment of a file, and does not depend on
this answer.
"""

from __future__ import annotations

import fcntl

# The request number of the reference implementation; its own file system knows it.
_CHECK_FS_ALIGN = 0x80046664


def checkFsAlign(fd: int) -> bool:  # noqa: N802 - the reference's name
    """Return whether the file system of `fd` aligns direct reads by itself.

    It is False on every file system that does not know the request.
    """
    answer = bytearray(4)
    try:
        fcntl.ioctl(fd, _CHECK_FS_ALIGN, answer)
    except (OSError, ValueError):
        return False
    return int.from_bytes(answer, "little") == 1
