"""One process of this machine, told apart from a later one that got the same number."""

from __future__ import annotations

import os
import select
from dataclasses import dataclass


@dataclass(frozen=True)
class Process:
    """A pid and when it began, in the kernel's clock ticks since boot."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """The process that has this number now; None: there is none."""
        start_ticks = _start_ticks(pid)
        return None if start_ticks is None else cls(pid, start_ticks)

    @classmethod
    def current(cls) -> Process:
        process = cls.of(os.getpid())
        assert process is not None
        return process

    def is_alive(self) -> bool:
        return _start_ticks(self.pid) == self.start_ticks

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended; False: it had not by then. It need not be our child."""
        try:
            fd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            if not self.is_alive():
                return True
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            return bool(poll.poll(timeout_s * 1000))
        finally:
            os.close(fd)


def _start_ticks(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat; None: no such process, or only its zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses may itself hold spaces and parentheses.
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
