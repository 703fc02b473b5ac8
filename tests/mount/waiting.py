"""What a process waits for, as the kernel says it."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path


def files_in_calls(pid: int) -> set[str]:
    """The open files, pipes and sockets ("socket:[123]") that its threads wait for in a call.

    By the call's first argument: "0 0x3 …" is read() of descriptor 3 on x86-64.
    """
    found = set()
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):  # it has ended, or the argument is no descriptor
            with open(f"/proc/{pid}/task/{thread}/syscall") as file:
                words = file.read().split()
            if len(words) > 1:  # else it runs
                found.add(os.readlink(f"/proc/{pid}/fd/{int(words[1], 16)}"))
    return found


def is_at_rest(pid: int) -> bool:
    """Each of its threads sleeps: none runs, waits for a CPU, or waits for a disk."""
    return states(pid) <= {"S"}


def states(pid: int) -> set[str]:
    """Those of its threads, by proc(5)."""
    return {text.rpartition(")")[2].split()[0] for text in of_threads(pid, "stat")}


def of_threads(pid: int, name: str) -> list[str]:
    """The text of /proc/PID/task/*/NAME; nothing of a thread or a process that has ended."""
    found = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/{pid}/task/{thread}/{name}").read_text())
    return found


def waited_s() -> float:
    """A clock of this thread that stops while it runs, and while it waits for a CPU.

    So it says how long something else was waited for, however busy the machine is.
    """
    with open("/proc/thread-self/schedstat") as file:
        run_ns, queued_ns, _ = map(int, file.read().split())
    return time.monotonic() - (run_ns + queued_ns) / 1e9


def sends(pid: int) -> bool:
    """It waits for the other end of a socket."""
    return any(file.startswith("socket:") for file in files_in_calls(pid))
