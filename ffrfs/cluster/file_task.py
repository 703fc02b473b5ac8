"""What tasks over one file have in common: the files, the settings that they take along, warnings.

Not here: verifying (verifying.py), indexing (indexing.py), converting (converting.py).
Concurrency: values; tasks share nothing.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from ffrfs.cluster.executors import adopted, slots
from ffrfs.errors import PackWarning, UnfinishedError, UnverifiedHeaderWarning, describe
from ffrfs.packing.driver import drive
from ffrfs.remote.url import is_url, parse_url

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")

# Where servers are. Tasks carry these to other machines; credentials are those of each machine.
_CARRIED = ("ENDPOINT_URL", "REGION", "ANONYMOUS", "REMOTE_TIMEOUT")

# Then something is wrong everywhere, a full disk for example.
_FAILURES_MAX = 10

_LOOKS_AT_A_TIME = 16

Environment = tuple[tuple[str, str], ...]


class FileState(NamedTuple):
    """Of a file or an object: another state, other contents. `etag`: of an object."""

    size: int
    mtime_ns: int
    etag: str


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


def state_of(path: str) -> FileState | None:
    """None: it is not there. Raises OSError, RemoteError."""
    if is_url(path):
        # Loads asyncio, which a task over files of this machine does without.
        from ffrfs.remote.bucket import pin_of
        from ffrfs.remote.settings import RemoteSettings

        pin = pin_of(parse_url(path), RemoteSettings.from_environment())
        return None if pin is None else FileState(pin.size, pin.mtime_ns, pin.etag or "")
    try:
        info = os.stat(path)
    except FileNotFoundError:
        return None
    return FileState(info.st_size, info.st_mtime_ns, "")


def states_of(paths: Iterable[str]) -> list[FileState | None]:
    """Of many, several at a time: a server is far away. Raises OSError, RemoteError."""
    with ThreadPoolExecutor(_LOOKS_AT_A_TIME, "ffrfs-look") as pool:
        return list(pool.map(state_of, paths))


def sizes_of(paths: Iterable[str]) -> list[int]:
    """0: it is not there. Raises OSError, RemoteError."""
    return [0 if state is None else state.size for state in states_of(paths)]


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

    drive(adopted(executor), slots(executor), function, take, done)
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
