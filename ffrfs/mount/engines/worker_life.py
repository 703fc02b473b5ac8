"""Watches whether a worker lives, and ends its mount if a killed worker cannot quite end.

Concurrency: tasks of the daemon's trio loop.

Not here: starting it, talking to it, reaping it (worker.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Self

import trio

_LIFE_INTERVAL_S = 1.0  # between looks at the worker's state
_STATUS_SIZE_MAX = 4096  # of /proc/PID/status, which has some 1,500 bytes


class WorkerLife:
    """Tells whether a worker lives, by two descriptors that are opened once."""

    def __init__(self, pid: int) -> None:
        # Not by waitpid: a worker that has closed its log may live on.
        self._process = os.pidfd_open(pid)
        try:
            self._status = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
        except BaseException:
            os.close(self._process)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._status)
        os.close(self._process)

    async def wait_for_end(self) -> None:
        await trio.lowlevel.wait_readable(self._process)

    def is_dying(self) -> bool:
        """Return whether the worker was killed, though some of its threads may be blocked."""
        status = os.pread(self._status, _STATUS_SIZE_MAX, 0)
        # The state says that the first thread has ended, or waits for the others to dump core.
        return b"\nState:\tZ" in status or b"\nCoreDumping:\t1" in status


async def abort_for_the_dying(life: WorkerLife, abort: Callable[[], None]) -> None:
    # A thread that stores bytes in the kernel waits there for a page that is locked by a read,
    # and no signal ends that wait. If its process is killed, that read gets no answer: so the
    # process never quite ends, nor do its log and the connection, which the thread keeps
    # open.
    while not life.is_dying():
        await trio.sleep(_LIFE_INTERVAL_S)
    abort()
