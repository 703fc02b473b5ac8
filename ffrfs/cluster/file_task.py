"""What a task over one file has in common: the settings that it takes along, and its warnings.

Not here: verifying (verifying.py), indexing (indexing.py), converting (converting.py).
Concurrency: values; tasks share nothing.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Generic, TypeVar

from ffrfs.cluster.driver import drive
from ffrfs.cluster.executors import slots
from ffrfs.errors import PackWarning, UnfinishedError, UnverifiedHeaderWarning, describe
from ffrfs.remote.url import is_url

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")

# Where servers are. Tasks carry these to other machines; credentials are those of each machine.
_CARRIED = ("ENDPOINT_URL", "REGION", "ANONYMOUS", "REMOTE_TIMEOUT")

# Then something is wrong everywhere, a full disk for example.
_FAILURES_MAX = 10

Environment = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Told(Generic[ResultT]):
    """A result, and what was warned of on the way."""

    result: ResultT
    warnings: tuple[PackWarning | UnverifiedHeaderWarning, ...]


def carried() -> Environment:
    """The settings of servers that a task takes along. None is a secret."""
    names = (f"FFRFS_{name}" for name in _CARRIED)
    return tuple((name, os.environ[name]) for name in names if name in os.environ)


def absolute(path: str) -> str:
    """What workers with other working directories can open."""
    return path if is_url(path) else os.path.abspath(path)


def with_warnings(function: Callable[[], ResultT]) -> Told[ResultT]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function()
    told = (warning.message for warning in caught)
    kept = (one for one in told if isinstance(one, PackWarning | UnverifiedHeaderWarning))
    return Told(result, tuple(kept))


def run_all(
    executor: Executor,
    function: Callable[[TaskT], Told[ResultT]],
    tasks: Sequence[TaskT],
    seen: Callable[[TaskT, ResultT], object],
) -> list[ResultT]:
    """Return the results in the order of the tasks; `seen` is called as they come.

    Warns of what the tasks were warned of. A task that fails does not keep the others from being
    done. Raises the error of a task if it is the only one, else UnfinishedError.
    """
    failures: list[Exception] = []
    found: dict[int, ResultT] = {}
    left = iter(enumerate(tasks))
    numbers: dict[int, int] = {}  # of a task by its identity

    def take() -> TaskT | None:
        number, task = next(left, (0, None))
        if task is not None:
            numbers[id(task)] = number
        return task

    def done(task: TaskT, told: Told[ResultT] | Exception) -> None:
        if isinstance(told, Exception):
            failures.append(told)
            if len(failures) == _FAILURES_MAX:
                raise _unfinished(failures, len(tasks))
            return
        _warn(told.warnings)
        found[numbers[id(task)]] = told.result
        seen(task, told.result)

    drive(executor, slots(executor), function, take, done)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise _unfinished(failures, len(tasks))
    return [found[number] for number in range(len(tasks))]


def _unfinished(failures: Sequence[Exception], count: int) -> UnfinishedError:
    return UnfinishedError(
        f"{len(failures):,} of {count:,} files failed; what is done is kept, and the same command "
        "does the rest",
        [describe(failure) for failure in failures],
    )


def _warn(told: Iterable[PackWarning | UnverifiedHeaderWarning]) -> None:
    for warning in told:
        warnings.warn(warning, stacklevel=4)
