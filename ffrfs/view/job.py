"""Jobs: work in the background. Pages start it, show its progress, and then its result.

Concurrency: any thread; the work itself has a thread of its own. A stopped job may start again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ffrfs.errors import FfrfsError, describe

T = TypeVar("T")

log = logging.getLogger(__name__)


class StoppedError(Exception):
    """Ends the work, whose result is not needed any more."""


@dataclass(frozen=True)
class Progress:
    """`error`: why the work ended without a result."""

    is_running: bool
    done: int
    total: int
    unit: str
    seconds: float
    error: str

    @property
    def share(self) -> float:
        return min(self.done / self.total, 1.0) if self.total else 0.0

    @property
    def per_s(self) -> float:
        return self.done / self.seconds if self.seconds else 0.0


class Job(Generic[T]):
    """`work` gets the job, calls its tick(), and returns the result. `total`: of `unit`s."""

    def __init__(self, work: Callable[[Job[T]], T], total: int, unit: str) -> None:
        self._work, self._total, self._unit = work, total, unit
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_stopped = threading.Event()
        self._done = 0
        self._began_s = self._ended_s = 0.0
        self._error = ""
        self.result: T | None = None

    def start(self) -> None:
        """Begin, unless it runs, or has a result."""
        with self._lock:
            if self.result is not None or (self._thread and self._thread.is_alive()):
                return
            self._is_stopped.clear()
            self._done, self._error, self._began_s = 0, "", time.monotonic()
            self._thread = threading.Thread(
                target=self._run, name=f"ffrfs {self._unit}", daemon=True
            )
            self._thread.start()

    def cancel(self) -> None:
        """Tell the work to end, and do not wait for it."""
        self._is_stopped.set()

    def stop(self) -> None:
        """End the work, and wait until it has ended. A result is kept."""
        self.cancel()
        if self._thread is not None:
            self._thread.join()

    def tick(self, count: int) -> None:
        """Count finished work. Raises StoppedError if the work has to end."""
        self._done += count
        if self._is_stopped.is_set():
            raise StoppedError

    @property
    def has_begun(self) -> bool:
        return self._thread is not None

    def progress(self) -> Progress:
        is_running = self._thread is not None and self._thread.is_alive()
        end_s = time.monotonic() if is_running else self._ended_s
        seconds = max(end_s - self._began_s, 0.0)
        return Progress(is_running, self._done, self._total, self._unit, seconds, self._error)

    def _run(self) -> None:
        try:
            self.result = self._work(self)
        except StoppedError:
            self._error = "stopped"
        except (FfrfsError, OSError) as error:
            self._error = describe(error)
        except Exception as error:
            log.error("%s: a fault of ffrfs", self._unit, exc_info=error)
            self._error = f"a fault of ffrfs: {describe(error)}"
        finally:
            self._ended_s = time.monotonic()
