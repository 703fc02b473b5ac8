"""A pool of processes that end with the command, and leave Ctrl-C to it.

Ctrl-C reaches all processes of a terminal. While a process begins, it can do nothing with it, so
it begins with SIGINT blocked, and then ignores it: the command tells it to end.

Concurrency: a thread has a pool of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

_PR_SET_PDEATHSIG = 1  # from linux/prctl.h


def open_pool(
    count: int, initializer: Callable[..., object], *arguments: object
) -> ProcessPoolExecutor:
    """Return a pool of the default start method; call submit() with interrupts_held()."""
    context = multiprocessing.get_context()
    # Processes of a fork server are not our children.
    parent = None if context.get_start_method() == "forkserver" else os.getpid()
    return ProcessPoolExecutor(
        count, context, initializer=_begin, initargs=(parent, initializer, arguments)
    )


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Start processes in the block; Ctrl-C waits for its end, so that no start is left half."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(
    parent: int | None, initializer: Callable[..., object], arguments: tuple[object, ...]
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # If the command is killed, they end with it, and do not wait for work for ever.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent not in (None, os.getppid()):
        os._exit(1)
    initializer(*arguments)
