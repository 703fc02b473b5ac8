"""Answers the kernel's requests with errors, for a mount that has no worker any more.

Concurrency: one task of the daemon's loop, while no worker has the connection.

Not here: when a mount comes to this (worker_deaths.py).
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from collections.abc import Iterable

import trio

from ffrfs.mount.kernel.kernel_mount import is_connected

# The protocol of include/uapi/linux/fuse.h: length, operation, number; length, error, number.
_REQUEST = struct.Struct("=IIQ")
_ANSWER = struct.Struct("=IiQ")
_MESSAGE_SIZE_MAX = 16384  # native/fuse/connection.h
_WITHOUT_ANSWER = {2, 36, 42}  # FORGET, INTERRUPT, BATCH_FORGET
_NOTIFY_RESEND = 7


async def refuse_requests(connection: int, unanswered: Iterable[int]) -> None:
    """Answer each request with EIO, until cancelled or until the connection ends.

    `unanswered`: the numbers of all requests that a dead worker may have received.
    """
    os.set_blocking(connection, False)
    try:
        if not _answer(connection, _NOTIFY_RESEND, 0):
            for number in unanswered:
                _answer(connection, -errno.EIO, number)
        while is_connected(connection):
            await trio.lowlevel.wait_readable(connection)
            with contextlib.suppress(OSError):  # the request was withdrawn
                message = os.read(connection, _MESSAGE_SIZE_MAX)
                _, operation, number = _REQUEST.unpack_from(message)
                if operation not in _WITHOUT_ANSWER:
                    _answer(connection, -errno.EIO, number)
    finally:
        os.set_blocking(connection, True)


def _answer(connection: int, error: int, number: int) -> bool:
    """Write an answer, or NOTIFY_RESEND; return False if the kernel refuses it."""
    try:
        os.write(connection, _ANSWER.pack(_ANSWER.size, error, number))
    except OSError:
        return False
    return True
