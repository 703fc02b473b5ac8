"""Runs tasks by any concurrent.futures.Executor, so many at a time that no worker waits.

Not here: executors (executors.py), what tasks do (listing.py, pack_task.py, file_tasks.py).
Concurrency: one thread drives; tasks run wherever the executor has them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import TypeVar

from ffrfs.cluster.executors import adopted

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")

# Tasks that wait at the workers, so that none is idle between two: at least so many.
_WAITING_MIN = 4


def drive(
    executor: Executor,
    slots: int,
    function: Callable[[TaskT], ResultT],
    take: Callable[[], TaskT | None],
    done: Callable[[TaskT, ResultT | Exception], None],
) -> None:
    """Run `function` with each task that `take` gives (None: there is none now).

    `done` gets the results as they come, and what a task raised; it may lead to more tasks, and
    what it raises ends the whole: tasks that have not begun are cancelled. So does Ctrl-C.
    """
    executor = adopted(executor)
    running: dict[Future[ResultT], TaskT] = {}
    try:
        while True:
            while len(running) < 2 * slots + _WAITING_MIN and (task := take()) is not None:
                running[executor.submit(function, task)] = task
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task = running.pop(future)
                error = future.exception()
                if error is not None and not isinstance(error, Exception):
                    raise error
                done(task, future.result() if error is None else error)
    finally:
        for future in running:
            future.cancel()
