"""The common part of tasks: the settings that they carry, and errors; and tasks over one file.

Not here: verifying (verifying.py), indexing (indexing.py), converting (ffrfs.convert).
Concurrency: values; tasks share nothing.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from ffrfs.cluster.executors import adopted, slots
from ffrfs.errors import UnfinishedError, describe, hearing
from ffrfs.packing.driver import drive
from ffrfs.remote.paths import let_urls_in
from ffrfs.remote.url import is_url, parse_url

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")
FileTaskT = TypeVar("FileTaskT", bound="FileTask[Any]")

# The places of servers. Tasks carry these to other machines; each has its own credentials.
_CARRIED = ("ENDPOINT_URL", "REGION", "ANONYMOUS", "REMOTE_TIMEOUT", "OFFLINE")

# After so many failures the fault is general, for example a full disk.
_FAILURES_MAX = 10

_LOOKS_AT_A_TIME = 16

Environment = tuple[tuple[str, str], ...]


class FileState(NamedTuple):
    """The state of a file or an object, which changes with its contents. `etag`: of an object."""

    size: int
    mtime_ns: int
    etag: str


@dataclass(frozen=True)
class Told(Generic[ResultT]):
    """A result, and the warnings on the way."""

    result: ResultT
    warnings: tuple[UserWarning, ...]


def carried() -> Environment:
    """Return the settings of servers that a task carries. None is a secret."""
    names = (f"FFRFS_{name}" for name in _CARRIED)
    return tuple((name, os.environ[name]) for name in names if name in os.environ)


_own: dict[str, str | None] = {}  # the settings of this process that those of tasks have replaced


def adopt(environment: Environment) -> None:
    """Take over the settings of a task; a task of another command may have run here before."""
    given = dict(environment)
    for name, value in given.items():
        if os.environ.get(name) != value:
            _own.setdefault(name, os.environ.get(name))
            os.environ[name] = value
    for name in [*_own.keys() - given.keys()]:
        before = _own.pop(name)
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@dataclass(frozen=True)
class FileTask(Generic[ResultT]):
    """A task over one file. Tasks are compared by identity."""

    file: str  # absolute, or a URL
    environment: Environment = field(default_factory=carried, kw_only=True)

    def run(self) -> ResultT:
        raise NotImplementedError


def run_file(task: FileTask[ResultT]) -> Told[ResultT]:
    """Run the task. Raises its exceptions."""
    adopt(task.environment)
    let_urls_in([task.file])
    with hearing() as told:
        result = task.run()
    return Told(result, tuple(told))


def state_of(path: str) -> FileState | None:
    """Return its state; None: it is missing. Raises OSError, RemoteError."""
    if is_url(path):
        # Imported here, because it loads asyncio, which tasks over local files do not need.
        from ffrfs.remote.bucket import pin_of
        from ffrfs.remote.settings import RemoteSettings

        pin = pin_of(parse_url(path), RemoteSettings.from_environment())
        return None if pin is None else FileState(pin.size, pin.mtime_ns, pin.etag or "")
    try:
        info = os.stat(path)
    except FileNotFoundError:
        return None
    return FileState(info.st_size, info.st_mtime_ns, "")


def look(at: Callable[[str], ResultT], paths: Iterable[str]) -> list[ResultT]:
    """Return the results of `at` for the paths; call it for several at a time: servers are slow."""
    with ThreadPoolExecutor(_LOOKS_AT_A_TIME, "ffrfs-look") as pool:
        return list(pool.map(at, paths))


def states_of(paths: Iterable[str]) -> list[FileState | None]:
    """Return the states of the files. Raises OSError, RemoteError."""
    return look(state_of, paths)


def sizes_of(paths: Iterable[str]) -> list[int]:
    """Return the sizes of the files; 0 for a missing one. Raises OSError, RemoteError."""
    return [0 if state is None else state.size for state in states_of(paths)]


def run_all(
    executor: Executor,
    function: Callable[[TaskT], ResultT],
    tasks: Iterable[TaskT],
    seen: Callable[[TaskT, ResultT], object],
    failed: Callable[[Sequence[tuple[TaskT, Exception]]], Exception],
) -> None:
    """Call `seen` with each result as it comes.

    If a task fails, the others still run, unless many fail. At the end raises the exception that
    `failed` makes of the failures.
    """
    failures: list[tuple[TaskT, Exception]] = []
    left = iter(tasks)

    def done(task: TaskT, result: ResultT | Exception) -> None:
        if not isinstance(result, Exception):
            seen(task, result)
            return
        failures.append((task, result))
        if len(failures) == _FAILURES_MAX:
            raise failed(failures)

    drive(adopted(executor), slots(executor), function, lambda: next(left, None), done)
    if failures:
        raise failed(failures)


def run_files(
    executor: Executor,
    tasks: Sequence[FileTaskT],
    seen: Callable[[FileTaskT, ResultT], object],
) -> list[ResultT]:
    """Run tasks as run_all() does; return their results in the order of the tasks.

    Repeats the warnings of the tasks. Raises the error of a task if it is the only one, else
    UnfinishedError.
    """
    found: dict[int, ResultT] = {}  # by the identity of the task

    def keep(task: FileTaskT, told: Told[ResultT]) -> None:
        for warning in told.warnings:
            warnings.warn(warning, stacklevel=4)
        found[id(task)] = told.result
        seen(task, told.result)

    def failed(failures: Sequence[tuple[FileTaskT, Exception]]) -> Exception:
        if len(failures) == 1:
            return failures[0][1]
        return UnfinishedError(
            f"{len(failures):,} of {len(tasks):,} files failed; what is done is kept, and the same "
            "command does the rest",
            [describe(failure) for _, failure in failures],
        )

    run_all(executor, run_file, tasks, keep, failed)
    return [found[id(task)] for task in tasks]
