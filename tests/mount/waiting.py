"""What a process waits for, according to the kernel."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Set
from pathlib import Path


def files_in_calls(pid: int) -> set[str | None]:
    """Return file_in_call() of each of its threads."""
    return {file_in_call(pid, int(thread)) for thread in os.listdir(f"/proc/{pid}/task")}


def file_in_call(pid: int, thread: int) -> str | None:
    """Return the open file, pipe or socket ("socket:[123]") that this thread waits for in a call.

    It is the call's first argument: "0 0x3 …" is read() of descriptor 3 on x86-64. Return None
    if that is no descriptor, or if the thread runs or has ended.
    """
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/task/{thread}/syscall").read_text().split()
        if len(words) > 1:  # else it runs
            return os.readlink(f"/proc/{pid}/fd/{int(words[1], 16)}")
    return None


def is_at_rest(pid: int) -> bool:
    """Return whether all its threads sleep: none runs, waits for a CPU, or waits for a disk."""
    return states(pid) <= {"S"}


def states(pid: int) -> set[str]:
    """Return the states of its threads, as in proc(5)."""
    return {text.rpartition(")")[2].split()[0] for text in of_threads(pid, "stat")}


def of_threads(pid: int, name: str) -> list[str]:
    """Return the texts of /proc/PID/task/*/NAME, without threads that have ended."""
    found = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/{pid}/task/{thread}/{name}").read_text())
    return found


def waited_s() -> float:
    """Return a clock of this thread that stops while it runs, and while it waits for a CPU.

    So it measures how long the thread waits for anything else, however busy the machine is.
    """
    with open("/proc/thread-self/schedstat") as file:
        run_ns, queued_ns, _ = map(int, file.read().split())
    return time.monotonic() - (run_ns + queued_ns) / 1e9


def sends(pid: int, before: Set[str | None] = frozenset()) -> bool:
    """Return whether it waits for the other end of a socket that is not in `before`."""
    return any((file or "").startswith("socket:") for file in files_in_calls(pid) - before)
