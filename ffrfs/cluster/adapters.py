"""Ray and Dask as concurrent.futures.Executor: thin adapters for a connection of this process.

The engine runs a task again if its worker or node is lost. An error of the task arrives as it was
raised; those of the engine become an FfrfsError of one line. If the head of Ray's cluster is lost,
Ray ends this process after a minute; the same command then goes on from there.

Not here: the other engines (executors.py), what a task does.
Concurrency: submit() and cancel() may be called by any thread; results are set by threads of the
engine. Neither engine is imported before it is used.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager
from typing import Any, NoReturn, ParamSpec, TypeAlias, TypeVar

from ffrfs.errors import FfrfsError

__all__ = ["DaskExecutor", "RayExecutor", "dask_cluster", "ray_cluster"]

RETRIES = 3
CONNECT_S = 8.0  # until a server listens
# For an answer of a server, which may be busy. Ray gives its server for a client 30 s to begin.
_ANSWER_S = 60.0
_END_S = 5.0
_RETRY_S = 0.1  # after a refused connection

P = ParamSpec("P")
T = TypeVar("T")
Args: TypeAlias = tuple[Any, ...]
Named: TypeAlias = dict[str, Any]


class Adapter(Executor):
    """Futures of an engine. Until its result arrives, a future can be cancelled, with its task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Future[Any], Any] = {}  # future → the engine's task
        self._is_open = True

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if not self._is_open:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._waiting[future] = None
        future.add_done_callback(self._end)
        self._begin(future, fn, args, kwargs)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._lock:
            self._is_open = False
            waiting = list(self._waiting)
        if cancel_futures:
            for future in waiting:
                future.cancel()
        if wait:
            futures.wait(waiting)

    def _begin(self, future: Future[T], fn: Callable[..., T], args: Args, kwargs: Named) -> None:
        """Let the engine run the task, and give() its result to `future`."""
        raise NotImplementedError

    def _cancel(self, task: Any) -> None:  # noqa: ANN401 - of any engine
        """End a task of the engine whose future was cancelled."""
        raise NotImplementedError

    def _began(self, future: Future[Any], task: Any) -> None:  # noqa: ANN401 - of any engine
        with self._lock:
            if future in self._waiting:
                self._waiting[future] = task
                return
        self._cancel(task)  # the future was cancelled meanwhile

    def _end(self, future: Future[Any]) -> None:
        with self._lock:
            task = self._waiting.pop(future, None)
        if future.cancelled():
            future.set_running_or_notify_cancel()
            if task is not None:
                self._cancel(task)


def give(future: Future[T], value: T | None, error: BaseException | None = None) -> None:
    """Set the result, unless the future was cancelled meanwhile."""
    with contextlib.suppress(futures.InvalidStateError):
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)  # type: ignore[arg-type]


def _within(connect: Callable[[], T]) -> T:
    """Return the result of `connect`. After a minute raises TimeoutError, and leaves its thread."""
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(connect())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return found.result(_ANSWER_S)
    except TimeoutError as error:
        raise TimeoutError(str(error) or f"nothing within {_ANSWER_S:.0f} s") from None


def lacks(text: str, extra: str) -> NoReturn:
    raise FfrfsError(
        f"executor {text}: a package is missing; to install it: pip install 'ffrfs[{extra}]'"
    ) from None


def _does_not_answer(text: str, what: str, error: Exception) -> NoReturn:
    detail = " ".join(str(error).split()) or type(error).__name__
    raise FfrfsError(f"executor {text}: no {what} answers there ({detail})") from None


class DaskExecutor(Adapter):
    """A client of Dask, which stays the caller's.

    Dask runs a task again if its worker is killed; KilledWorker means that it has given up. Dask
    may also cancel a task whose result is lost: this class submits that task again.
    Client.get_executor() would not do: if a worker is killed while its results are fetched, its
    futures never end, or fail (TypeError; distributed 2026.8, _cascade_future()).
    """

    def __init__(self, client: Any) -> None:  # noqa: ANN401 - untyped
        super().__init__()
        self._client = client

    def _begin(self, future: Future[T], fn: Callable[..., T], args: Args, kwargs: Named) -> None:
        self._client.loop.add_callback(self._follow, future, fn, args, kwargs)

    def _cancel(self, task: Any) -> None:  # noqa: ANN401 - untyped
        self._client.loop.add_callback(self._client.cancel, [task], asynchronous=True)

    async def _follow(
        self, future: Future[T], fn: Callable[..., T], args: Args, kwargs: Named
    ) -> None:
        for _ in range(1 + RETRIES):
            if future.cancelled():
                return
            try:
                # pure: equal arguments would be one task.
                task = self._client.submit(fn, *args, pure=False, **kwargs)
                self._began(future, task)
                give(future, await self._client.gather(task, asynchronous=True))
            except CancelledError:  # by Dask: its worker was lost, with the result
                continue
            except Exception as error:
                give(future, None, _of_dask(error))
            return
        give(future, None, FfrfsError("the Dask scheduler is gone, or it cancels our tasks"))


def _of_dask(error: Exception) -> Exception:
    kind, text = type(error).__name__, " ".join(str(error).split())
    if kind == "KilledWorker":
        return FfrfsError(f"Dask gave up a task: {text}")
    if kind in ("ClosedClientError", "CommClosedError"):
        return FfrfsError(f"the Dask scheduler is gone ({text})")
    return error


@contextmanager
def dask_cluster(place: str, text: str) -> Iterator[Executor]:
    """Yield an executor of Dask's scheduler at `place`. Raises FfrfsError, naming `text`."""
    try:
        import distributed
    except ImportError:
        lacks(text, "dask")
    connect: Any = distributed.Client  # untyped
    try:
        # Without a scheme: tcp, or what Dask's own configuration says (tls).
        client = _within(lambda: connect(place, timeout=CONNECT_S, set_as_default=False))
    except Exception as error:
        _does_not_answer(text, "Dask scheduler", error)
    executor = DaskExecutor(client)
    try:
        yield executor
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        client.close(timeout=_END_S)


@contextmanager
def ray_cluster(place: str | None, text: str) -> Iterator[Executor]:
    """Yield an executor of Ray's server for clients at `place`.

    None: the cluster of RAY_ADDRESS, or of this machine. Raises FfrfsError, naming `text`.
    """
    try:
        import ray
    except ImportError:
        lacks(text, "ray")
    address = f"ray://{place}" if place else os.environ.get("RAY_ADDRESS") or "auto"
    where = text if place else f"{text} ({address})"
    warnings.filterwarnings("ignore", category=UserWarning, module=r"ray\.util\.client\.")
    try:
        _require_listener(address.removeprefix("ray://"))
        # Called in another thread, where Ray does not replace the handler of SIGTERM.
        _within(lambda: ray.init(address, log_to_driver=False, logging_level=logging.ERROR))
    except Exception as error:
        if "ray[client]" in str(error):
            lacks(text, "ray")
        _does_not_answer(where, "Ray cluster", error)
    executor = RayExecutor()
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)
        ray.shutdown()


def _require_listener(place: str) -> None:
    """Raise unless a server listens within CONNECT_S; Ray itself tries for over a minute."""
    host, _, port = place.rpartition(":")
    if not host or not port.isdecimal():
        return
    deadline_s = time.monotonic() + CONNECT_S
    while True:
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
            return
        except ConnectionRefusedError:  # `ray start` ends before its servers listen
            if time.monotonic() > deadline_s:
                raise
        time.sleep(_RETRY_S)


class RayExecutor(Adapter):
    """An executor of Ray's cluster. The caller calls ray.init() before, and ray.shutdown().

    To cancel a task that runs, Ray interrupts it (KeyboardInterrupt in its worker).
    """

    def __init__(self) -> None:
        import ray

        super().__init__()
        self._call = ray.remote(max_retries=RETRIES, num_cpus=1)(_call)

    @property
    def slots(self) -> int:
        """The CPUs of the cluster now; it may grow."""
        import ray

        found: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        return int(found.get("CPU", 1))

    def _begin(self, future: Future[T], fn: Callable[..., T], args: Args, kwargs: Named) -> None:
        try:
            reference = self._call.remote(fn, args, kwargs)
        except Exception as error:  # of an argument that cannot be sent
            give(future, None, error)
            return
        self._began(future, reference)
        reference.future().add_done_callback(lambda done: self._copy(done, future))

    def _cancel(self, task: Any) -> None:  # noqa: ANN401 - untyped
        import ray

        ray.cancel(task)

    def _copy(self, done: Future[tuple[T, Exception | None]], future: Future[T]) -> None:
        from ray.exceptions import TaskCancelledError

        problem = done.exception()
        if isinstance(problem, TaskCancelledError):
            future.cancel()
        elif problem is not None:
            give(future, None, _translated(problem))
        else:
            give(future, *done.result())


def _call(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Exception | None]:
    """Run the task, in a worker; return an error as a value: Ray would change its class."""
    try:
        return fn(*args, **kwargs), None
    except Exception as error:
        return None, error


def _translated(error: BaseException) -> BaseException:
    from ray.exceptions import RayError, RayTaskError

    if isinstance(error, RayTaskError) and isinstance(error.cause, Exception):
        return error.cause
    if isinstance(error, RayError):
        text = " ".join(str(error).split())
        return FfrfsError(f"Ray gave up a task: {text} ({type(error).__name__})")
    return error
