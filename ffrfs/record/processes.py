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


# In a process of a pool: whether its result is not needed any more.
_end: ctypes.c_bool | None = None


class EndedError(Exception):
    """Another process has failed, or Ctrl-C has ended the command."""


@contextlib.contextmanager
def open_pool(
    count: int, initializer: Callable[..., object] | None = None, *arguments: object
) -> Iterator[ProcessPoolExecutor]:
    """Give a pool of the default start method; call submit() with interrupts_held().

    After the block, no further task begins, and running tasks end at their next check_end().
    """
    context = multiprocessing.get_context()
    # Processes of a fork server are not our children.
    parent = None if context.get_start_method() == "forkserver" else os.getpid()
    end = context.RawValue(ctypes.c_bool, False)
    executor = ProcessPoolExecutor(
        count, context, initializer=_begin, initargs=(parent, end, initializer, arguments)
    )
    try:
        yield executor
    finally:
        end.value = True
        executor.shutdown(cancel_futures=True)


def check_end() -> None:
    """Raise EndedError in a process of a pool that has to end."""
    if _end is not None and _end.value:
        raise EndedError


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Start processes in the block. Ctrl-C waits until it ends, so that each start is complete."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(
    parent: int | None,
    end: ctypes.c_bool,
    initializer: Callable[..., object] | None,
    arguments: tuple[object, ...],
) -> None:
    global _end  # noqa: PLW0603 - set once per process, before any task
    _end = end
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # If the command is killed, this process ends too, and does not wait for work for ever.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent not in (None, os.getppid()):
        os._exit(1)
    if initializer is not None:
        initializer(*arguments)
