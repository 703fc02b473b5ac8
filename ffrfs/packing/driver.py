"""Runs tasks by any concurrent.futures.Executor, so many at a time that no worker waits.

Not here: executors (ffrfs.cluster; threads: shards.py), the tasks.
Concurrency: one thread drives; tasks run wherever the executor has them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import TypeVar

from ffrfs.packing.held_signals import HeldSignals

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")

# At least so many tasks wait at the workers, so that no worker is idle between two.
_WAITING_MIN = 4
_TICK_S = 0.1


def drive(  # noqa: PLR0913, PLR0917 - all of a loop
    executor: Executor,
    slots: int,
    function: Callable[[TaskT], ResultT],
    take: Callable[[], TaskT | None],
    done: Callable[[TaskT, ResultT | Exception], None],
    tick: Callable[[], object] | None = None,
) -> None:
    """Run `function` with each task that `take` gives (None: there is none now).

    `done` gets the results as they come, and the exceptions of tasks; it may lead to more tasks.
    An exception of `done`, or of `tick`, which is called ten times a second, or Ctrl-C, which waits
    until a task was submitted, ends all: tasks that have not begun are cancelled.
    """
    running: dict[Future[ResultT], TaskT] = {}
    ended: SimpleQueue[Future[ResultT] | None] = SimpleQueue()  # None: a signal has come
    with HeldSignals(lambda: ended.put(None)) as signals:
        try:
            while True:
                most = 2 * slots + _WAITING_MIN
                while len(running) < most and (task := signals.run(take)) is not None:
                    future = executor.submit(function, task)
                    running[future] = task
                    future.add_done_callback(ended.put)
                if not running:
                    return
                given = None
                with contextlib.suppress(Empty):
                    given = ended.get(timeout=_TICK_S if tick else None)
                if given is not None:
                    task = running.pop(given)
                    error = given.exception()
                    if error is not None and not isinstance(error, Exception):
                        raise error
                    signals.run(done, task, given.result() if error is None else error)
                signals.run(tick or (lambda: None))
        finally:
            for future in running:
                future.cancel()
