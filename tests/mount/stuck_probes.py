"""What child processes do to a daemon that is to be stuck (engines/test_stuck_push.py)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000


def hint_in_turn(mountpoint: str, hints: list[bytes]) -> Iterator[bytes]:
    """Send one of these each time."""
    from ffrfs.mount.client.hint_stream import HintStream

    stream = HintStream(mountpoint)
    for name in hints:
        stream.send([name])
        yield name


def hold_thread(thread: int) -> Iterator[None]:
    """Stop that thread, and no other one of its process, until this process ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
        if libc.ptrace(request, thread, None, None) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    os.waitpid(thread, WALL)
    yield


def open_and_read(path: str) -> Iterator[bytes | int | None]:
    """Nothing; then, when asked again, the bytes, or the errno."""
    with open(path, "rb", buffering=0) as file:
        yield None
        try:
            yield file.read()
        except OSError as error:
            yield error.errno or -1
