"""A process of this machine, distinguished from a later one with the same pid."""

from __future__ import annotations

import os
import select
from dataclasses import dataclass

from ffrfs.mount.kernel.system_call import pidfd_open


@dataclass(frozen=True)
class Process:
    """A pid and the start of its process, in the kernel's clock ticks since boot."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """Return the process that has this pid now, or None."""
        start_ticks = _start_ticks(pid)
        return None if start_ticks is None else cls(pid, start_ticks)

    @classmethod
    def current(cls) -> Process:
        process = cls.of(os.getpid())
        assert process is not None
        return process

    def is_alive(self) -> bool:
        return _start_ticks(self.pid) == self.start_ticks

    def is_stopped(self) -> bool:
        """Return whether a signal or a debugger has stopped it: it does nothing meanwhile."""
        fields = _status_fields(self.pid)
        return fields is not None and fields[0] in (b"T", b"t") and self.is_alive()

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; return False if the time was too short. It need not be our child."""
        try:
            fd = pidfd_open(self.pid)
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
    """Return its start, or None if there is no such process, or only its zombie."""
    fields = _status_fields(pid)
    return None if fields is None or fields[0] in (b"Z", b"X") else int(fields[19])


def _status_fields(pid: int) -> list[bytes] | None:
    """Return the fields of /proc/PID/stat from the third, the state, on; None: no such process.

    With hidepid= (proc(5)) a process of another user looks like none. That does no harm: only
    the user of a daemon looks for it.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses may itself hold spaces and parentheses.
            return file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
