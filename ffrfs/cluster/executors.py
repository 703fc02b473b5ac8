"""Executors for tasks: processes of this machine, Dask, Ray, MPI; each is a futures.Executor.

A task whose worker is killed begins again elsewhere: with processes and Ray three times, with Dask
as often as its scheduler allows (distributed.scheduler.allowed-failures, 3). Under MPI a rank that
dies ends the whole job; the same command then goes on from there.

Not here: tasks and the use of their results; the adapters of Ray and Dask (adapters.py).
Concurrency: submit() may be called by any thread. Each process belongs to a thread of this one,
which waits for its answers. An engine is imported when it is first used.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NoReturn, ParamSpec, TypeVar

from ffrfs.cluster import adapters
from ffrfs.cluster.adapters import RETRIES, Args, Named
from ffrfs.errors import FfrfsError, OptionError, describe
from ffrfs.files.interpreter import interpreter, starting_process

__all__ = ["FORMS", "ProcessExecutor", "adopted", "open_executor", "slots"]

FORMS = "processes, processes:N, dask://HOST:PORT, ray, ray://HOST:PORT or mpi"

_PR_SET_PDEATHSIG = 1  # of linux/prctl.h
_PROCESSES_MAX = 1024
_END_S = 5.0
_PLACE = re.compile(r"(dask|ray)://((?:\[[0-9a-fA-F:.]+\]|[^\s/:@\[\]]+):[0-9]{1,5})/?")
# The program of a pool's process. It has our sys.path, so that it finds the functions of all our
# modules, except those of __main__, which it does not run.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]); "
    "from ffrfs.cluster.executors import serve; serve(int(sys.argv[1]), int(sys.argv[2]))"
)

P = ParamSpec("P")
T = TypeVar("T")


def open_executor(text: str | None) -> AbstractContextManager[Executor]:
    """Return the executor that `text` names (FORMS); None: a process for each CPU that we may use.

    At its end waiting tasks are cancelled, and running ones are ended where the engine can: those
    of processes and of Ray. Running tasks of Dask are left behind, those of MPI are waited for.
    "ray": the cluster to which this machine belongs, or that of RAY_ADDRESS.

    Raises OptionError for any other text. Entering it raises OptionError for "mpi" without ranks,
    and FfrfsError if the engine's package is missing, nothing listens at its address within eight
    seconds, or no answer comes within a minute.
    """
    if text is None or text == "processes":
        return _ending(ProcessExecutor(len(os.sched_getaffinity(0))))
    if match := re.fullmatch(r"processes:([0-9]{1,9})", text):
        if not 1 <= int(match[1]) <= _PROCESSES_MAX:
            raise OptionError(f"executor {text}: 1 to {_PROCESSES_MAX} processes are possible")
        return _ending(ProcessExecutor(int(match[1])))
    if text in ("mpi", "ray"):
        return _mpi(text) if text == "mpi" else adapters.ray_cluster(None, text)
    match = _PLACE.fullmatch(text)
    if match is None or not 1 <= int(match[2].rpartition(":")[2]) <= 65535:
        raise OptionError(f"executor {text!r}: not known; possible are {FORMS}")
    open_cluster = adapters.dask_cluster if match[1] == "dask" else adapters.ray_cluster
    return open_cluster(match[2], text)


def adopted(executor: Executor) -> Executor:
    """Return the executor to use in place of the caller's: our adapter for Dask's, else the same.

    Dask's own (Client.get_executor()) loses results of a killed worker; see DaskExecutor.
    """
    if type(executor).__module__ != "distributed.cfexecutor":
        return executor
    return adapters.DaskExecutor(getattr(executor, "_client"))  # noqa: B009 - Dask's, and untyped


def slots(executor: Executor) -> int:
    """Return how many tasks an executor can run now, at least 1; a cluster may grow and shrink.

    Works for any executor, also for one without an adapter of ours.
    """
    client = getattr(executor, "_client", None)
    if client is not None:
        threads: dict[str, int] = client.nthreads()
        return max(1, sum(threads.values()))
    for name in ("slots", "_max_workers"):
        count = getattr(executor, name, None)
        if isinstance(count, int):
            return max(1, count)
    return len(os.sched_getaffinity(0))


@contextmanager
def _ending(executor: Executor) -> Iterator[Executor]:
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)


@contextmanager
def _mpi(text: str) -> Iterator[Executor]:
    """Yield an executor of the other ranks of this MPI job (python -m mpi4py.futures).

    Many sites forbid spawning ranks, so a job without other ranks is refused. A running task
    cannot be cancelled: shutting down waits for its end.
    """
    try:
        import mpi4py  # noqa: F401 - MPI itself begins with mpi4py.MPI
    except ImportError:
        adapters.lacks(text, "mpi")
    if getattr(sys.modules.get("mpi4py.futures._core"), "SharedPool", None) is None:
        raise OptionError(
            f"executor {text}: there are no ranks that wait for tasks; start it as "
            "mpiexec -n RANKS python -m mpi4py.futures -m ffrfs ..."
        )
    from mpi4py.futures import MPIPoolExecutor

    # Our __main__ is of no use in the other ranks.
    with _ending(MPIPoolExecutor(main=False)) as executor:
        yield executor


class ProcessExecutor(Executor):
    """Processes of this machine, each started when it is needed and used until the end.

    If one is killed, only its own task begins again. They end with the thread that started
    them, hence also when this process is killed. They block SIGINT, which a terminal sends.
    """

    def __init__(self, count: int) -> None:
        self.slots = count
        self._threads = ThreadPoolExecutor(count, "ffrfs-process", initializer=_block_interrupt)
        self._own = threading.local()
        self._lock = threading.Lock()
        self._workers: set[_Worker] = set()
        self._is_ending = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._threads.submit(self._run, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """`cancel_futures` also ends running tasks: by SIGTERM, and SIGKILL some seconds later."""
        self._threads.shutdown(wait=False, cancel_futures=cancel_futures)
        if cancel_futures:
            with self._lock:
                self._is_ending = True
                workers = list(self._workers)
            _end(workers)
        self._threads.shutdown(wait=wait)
        if wait:
            _end(self._workers)

    def _run(self, fn: Callable[..., T], args: Args, kwargs: Named) -> T:
        for _ in range(1 + RETRIES):
            worker = self._worker()
            try:
                is_good, value = worker.call(fn, args, kwargs)
            except (EOFError, ConnectionError):
                reason = worker.end()
                self._own.worker = None
                with self._lock:
                    self._workers.discard(worker)
                continue
            if is_good:
                return value  # type: ignore[no-any-return]
            raise value
        raise FfrfsError(
            f"a process was lost {1 + RETRIES} times at the same task ({reason}), for example "
            "because memory was short; use fewer of them (--executor processes:N)"
        )

    def _worker(self) -> _Worker:
        """Return the process of this thread."""
        worker: _Worker | None = getattr(self._own, "worker", None)
        with self._lock:
            if self._is_ending:
                raise CancelledError
            if worker is None:
                worker = self._own.worker = _Worker()
                self._workers.add(worker)
        return worker


class _Worker:
    """A process that answers one task after the other."""

    def __init__(self) -> None:
        python = interpreter("a process for tasks", FfrfsError)
        self._link, theirs = Pipe()
        with theirs, starting_process():
            handle = theirs.fileno()
            arguments = [str(handle), str(os.getpid()), json.dumps(sys.path)]
            self.process = subprocess.Popen(
                [python, "-P", "-c", _PROGRAM, *arguments],
                stdin=subprocess.DEVNULL,
                pass_fds=[handle],
            )

    def call(self, fn: Callable[..., object], args: Args, kwargs: Named) -> tuple[bool, Any]:
        self._link.send((fn, args, kwargs))
        answer: tuple[bool, Any] = self._link.recv()
        return answer

    def end(self) -> str:
        """End the process, whose link has ended; return how it ended."""
        self._link.close()
        _end([self])
        status = self.process.returncode
        return f"status {status}" if status >= 0 else signal.Signals(-status).name


def _end(workers: Iterable[_Worker]) -> None:
    """End the processes by SIGTERM, and after some seconds by SIGKILL."""
    processes = [worker.process for worker in workers]
    for process in processes:
        process.terminate()
    deadline_s = time.monotonic() + _END_S
    try:
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline_s - time.monotonic()))
    finally:  # also at a second Ctrl-C
        for process in processes:
            process.kill()
            process.wait()


def _block_interrupt() -> None:
    """Block SIGINT in this thread and in its process, so that it goes to the main thread."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def serve(handle: int, parent: int) -> None:
    """Answer tasks that come from `handle`, until its end."""
    # The kernel kills this process, even during a task, when the thread that started it ends.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # not under nohup(1)
            signal.signal(number, _leave)
    os.set_inheritable(handle, False)
    with Connection(handle) as link, contextlib.suppress(EOFError, ConnectionError):
        while True:
            _answer(link, *_result(link))


def _result(link: Connection) -> tuple[bool, object]:
    """Run the next task; return (True, its value) or (False, its error)."""
    try:
        fn, args, kwargs = link.recv()
    except (EOFError, ConnectionError):
        raise
    except Exception as error:  # this process does not find the function, or an argument's class
        return False, error
    try:
        return True, fn(*args, **kwargs)
    except Exception as error:
        return False, error


def _answer(link: Connection, is_good: bool, value: object) -> None:
    try:
        link.send((is_good, value))
    except ConnectionError:
        raise
    except Exception as error:  # the value cannot be sent
        problem = value if isinstance(value, Exception) else error
        link.send((False, FfrfsError(describe(problem))))


def _leave(number: int, _: object) -> NoReturn:
    """End the task by an exception, so that it removes its unfinished files."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)
