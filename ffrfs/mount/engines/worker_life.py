"""Watches whether a worker lives.

Concurrency: tasks of the daemon's trio loop.

Not here: starting it, talking to it, reaping it (worker.py).
"""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable
from io import FileIO
from typing import Self

import trio

from ffrfs.mount.engines.counter_page import Counters
from ffrfs.mount.engines.tick import tick
from ffrfs.mount.engines.worker_deaths import in_flight

_LIFE_INTERVAL_S = 0.5  # between looks at the state of a worker that serves
_STATUS_SIZE_MAX = 4096  # of a file in /proc, which has some 1,500 bytes
_EXIT_CODE = 49  # the field of /proc/PID/stat, counted behind the name, as waitpid() gives it


class WorkerLife:
    """Tells whether a worker lives, by files that are opened once."""

    def __init__(self, process: int, pid: int, counters: Callable[[], Counters]) -> None:
        """`process`: its pidfd, which stays the caller's. Raises OSError if there is none."""
        # The pidfd, because the end of the log does not show the end of a worker.
        self._process = process
        self._counters = counters
        self._counted: Counters = {}  # at the last look
        with contextlib.ExitStack() as opened:
            self._status = opened.enter_context(_open(pid, "status"))
            self._stat = opened.enter_context(_open(pid, "stat"))
            self._opened = opened.pop_all()
        self._ended = select.poll()
        self._ended.register(self._process, select.POLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    async def wait_for_end(self) -> int | None:
        """Wait until the worker has ended, and return None.

        Return its status, as subprocess gives it, if the worker was killed but cannot end: a thread
        that stores bytes in the kernel may wait there for a page that is locked by a read, and no
        signal ends that wait. That read gets no answer until another worker gives it, so neither
        the process nor its log ends.
        """
        while True:
            with trio.move_on_at(self._next_look()):
                await trio.lowlevel.wait_readable(self._process)
            # Asked again, because this process may have been stopped until after the time limit.
            if self._ended.poll(0):
                return None
            # If the worker is not a child of this process, it may be gone by now.
            with contextlib.suppress(ProcessLookupError):
                if self._is_dying() and (code := self._exit_code()):
                    return -(code & 0x7F) or code >> 8

    def _next_look(self) -> float:
        """Return when to look again: soon, if the worker has requests."""
        counters, before = self._counters(), self._counted
        self._counted = counters
        if counters != before or in_flight(counters):
            return trio.current_time() + _LIFE_INTERVAL_S
        return tick(_LIFE_INTERVAL_S)

    def _is_dying(self) -> bool:
        """Return whether the worker was killed, though some of its threads may be blocked."""
        status = os.pread(self._status.fileno(), _STATUS_SIZE_MAX, 0)
        # The state says that the first thread has ended, or waits for the others to dump core.
        return b"\nState:\tZ" in status or b"\nCoreDumping:\t1" in status

    def _exit_code(self) -> int:
        """Return the later status of waitpid(); 0 while a worker ends well, which may take long."""
        stat = os.pread(self._stat.fileno(), _STATUS_SIZE_MAX, 0)
        return int(stat.rpartition(b")")[2].split()[_EXIT_CODE])


def _open(pid: int, name: str) -> FileIO:
    return FileIO(f"/proc/{pid}/{name}")
