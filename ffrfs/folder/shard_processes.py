"""Processes that write packs side by side, one each.

They are forked, so they have the list of files without a copy of it. Each tells over a pipe
how far it is, and in the end that it is done or what went wrong; it ends when its parent
does, and cleans up then. What is in the pipe is JSON.

Concurrency: call it from any thread; the processes write, this one waits.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import NamedTuple

from ffrfs import errors
from ffrfs.folder.contents import Tick

_FORK = multiprocessing.get_context("fork")
_TICK_S = 0.1
_MESSAGE_LIMIT = 1 << 20  # bytes; paths are the most of it
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Task(NamedTuple):
    """A pack, and the function that writes it: with so many threads, telling how far it is."""

    path: str
    write: Callable[[int, Tick], object]


def run_in_turn(tasks: Sequence[Task], tick: Tick) -> None:
    """Run one task after the other, in this process."""
    total = _Total(tick)
    for task in tasks:
        task.write(1, total)
        total.begin_next()


def run_side_by_side(
    tasks: Sequence[Task], jobs: int, tick: Tick, orphaned: Callable[[], object]
) -> None:
    """Run each task in a process of its own, with `jobs` threads in all.

    Raises what the first one raises that fails; the others are ended then. `orphaned` is
    called in a process whose parent has died.
    """
    process_count = min(len(tasks), jobs, os.cpu_count() or 1)
    threads = jobs // process_count
    waiting = deque(tasks)
    running: dict[Connection, _Process] = {}
    files = size = 0  # of the tasks that are done
    try:
        while waiting or running:
            while waiting and len(running) < process_count:
                with _holding_signals():
                    process = _Process(waiting.popleft(), threads, list(running), orphaned)
                    running[process.connection] = process
            for connection in wait(list(running), _TICK_S):
                assert isinstance(connection, Connection)
                process = running[connection]
                if process.is_done():
                    del running[connection]
                    files += process.files
                    size += process.size
            tick(
                files + sum(process.files for process in running.values()),
                size + sum(process.size for process in running.values()),
            )
    finally:
        for process in running.values():
            process.kill()


@contextlib.contextmanager
def _holding_signals() -> Iterator[None]:
    """Let no handler run in a process that is not yet known, nor in it before it is ready."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Total:
    """Takes the ticks of one task after the other, and gives those of all."""

    def __init__(self, tick: Tick) -> None:
        self._tick = tick
        self._before = (0, 0)
        self._now = (0, 0)

    def begin_next(self) -> None:
        self._before = self._now

    def __call__(self, files: int, size: int) -> None:
        self._now = (self._before[0] + files, self._before[1] + size)
        self._tick(*self._now)


class _Process:
    def __init__(
        self,
        task: Task,
        threads: int,
        others: list[Connection],
        orphaned: Callable[[], object],
    ) -> None:
        self.files = self.size = 0
        self._path = task.path
        self.connection, there = _FORK.Pipe(duplex=False)
        self._process = _FORK.Process(
            target=_work,
            args=(task, threads, there, [self.connection, *others], orphaned),
            daemon=True,
        )
        with warnings.catch_warnings():
            # Of other threads, which Python warns of: what runs there is the native core.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        there.close()

    def is_done(self) -> bool:
        """Take a message; raise the error if it is one."""
        try:
            message = json.loads(self.connection.recv_bytes(_MESSAGE_LIMIT))
        except (EOFError, ConnectionError):
            self._process.join()
            raise errors.PackError(
                f"{self._path}: the process that wrote it has died ({_death(self._process)})"
            ) from None
        if "error" in message:
            raise _error(message["error"], message["arguments"])
        if "files" in message:
            self.files, self.size = message["files"], message["size"]
            return False
        self._process.join()
        self._process.close()
        self.connection.close()
        return True

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self._process.close()
        self.connection.close()


def _death(process: multiprocessing.process.BaseProcess) -> str:
    status = process.exitcode or 0
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _work(
    task: Task,
    threads: int,
    connection: Connection,
    inherited: list[Connection],
    orphaned: Callable[[], object],
) -> None:
    """What the process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent decides
    for number in _SIGNALS:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    for end in inherited:
        end.close()  # else a pipe would outlive the parent

    def tell(**message: object) -> None:
        connection.send_bytes(json.dumps(message).encode())

    try:
        try:
            task.write(threads, lambda files, size: tell(files=files, size=size))
            tell()
        except BrokenPipeError:
            raise
        except Exception as error:
            tell(**_described(task.path, error))
    except BrokenPipeError:
        orphaned()


def _described(path: str, error: Exception) -> dict[str, object]:
    arguments: list[object]
    if isinstance(error, errors.FfrfsError):
        name, arguments = type(error).__name__, [str(error)]
    elif isinstance(error, OSError) and error.strerror:
        file = error.filename if isinstance(error.filename, (str, bytes)) else path
        name, arguments = "OSError", [error.errno, error.strerror, os.fsdecode(file)]
    else:
        name, arguments = "PackError", [f"{path}: {type(error).__name__}: {error}"]
    return {"error": name, "arguments": arguments}


def _error(name: str, arguments: list[object]) -> Exception:
    kind: type[Exception] = OSError if name == "OSError" else getattr(errors, name)
    return kind(*arguments)
