"""Functions that child processes run to make a daemon stuck (engines/test_stuck_push.py)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

from tests.mount.waiting import file_in_call

PTRACE_CONT, PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 7, 0x4206, 0x4207, 0x40000000


def hint_in_turn(mountpoint: str, hints: list[bytes]) -> Iterator[bytes]:
    """Send one of these hints each time."""
    from ffrfs.mount.client.hint_stream import HintStream

    stream = HintStream(mountpoint)
    for name in hints:
        stream.send([name])
        yield name


def hold_loop(daemon: int) -> Iterator[None]:
    """Stop the daemon's first thread, and no other one, until this process ends.

    The thread must wait for events then: elsewhere it may hold Python's interpreter lock.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def trace(request: int) -> None:
        if libc.ptrace(request, daemon, None, None) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    trace(PTRACE_SEIZE)
    while True:
        trace(PTRACE_INTERRUPT)
        os.waitpid(daemon, WALL)
        if file_in_call(daemon, daemon) == "anon_inode:[eventpoll]":
            break
        trace(PTRACE_CONT)
    yield


def open_and_read(path: str) -> Iterator[bytes | int | None]:
    """Open the file; at the next call yield its bytes, or the errno."""
    with open(path, "rb", buffering=0) as file:
        yield None
        try:
            yield file.read()
        except OSError as error:
            yield error.errno or -1
