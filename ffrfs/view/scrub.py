"""Scrub: reads every record in the background, and keeps those that are damaged.

Concurrency: any thread starts and stops it; `damaged` and `faults` grow while it runs.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ffrfs.errors import text_within
from ffrfs.printable import printable
from ffrfs.view.collection import Collection
from ffrfs.view.job import Job

_STEP_SIZE, _STEP_COUNT = 32 << 20, 1 << 16
_FAULTS_MAX = 1000


@dataclass(frozen=True)
class Fault:
    """A damaged record. `key`: of its item, None for an index; `record`: within `pack`."""

    number: int
    key: str | None
    pack: str
    record: int
    offset: int
    reason: str


class Scrub:
    """`damaged`: the numbers of the damaged records, in order; `faults`: the first of them."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self.damaged: list[int] = []
        self.faults: list[Fault] = []
        self.job = Job(self._read, self._collection.count, "records")

    def start(self) -> None:
        """Begin from the first record, unless it is running."""
        with self._lock:
            if self.job.progress().is_running:
                return
            if self.job.has_begun:
                self._begin()
            self.job.start()

    def stop(self) -> None:
        with self._lock:
            self.job.stop()

    def _read(self, job: Job[bool]) -> bool:
        count = self._collection.count
        size = self._collection.size_before(count) // max(count, 1)
        step = max(1, min(_STEP_COUNT, _STEP_SIZE // max(size, 1)))
        for first in range(0, count, step):
            end = min(first + step, count)
            for number, error in self._collection.verify(first, end - first):
                self.damaged.append(number)
                if len(self.faults) < _FAULTS_MAX:
                    self.faults.append(self._fault(number, error))
            job.tick(end - first)
        return True

    def _fault(self, number: int, error: Exception) -> Fault:
        place = self._collection.place(number)
        return Fault(number, *place, printable(text_within(error, place.pack)))
