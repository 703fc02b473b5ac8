"""Counts records on their way to a target, and reports to a Progress.

Concurrency: one thread; another one may set `sent`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import TypeVar

from ffrfs.folder.progress import Progress

_Sized = TypeVar("_Sized", bound=Sized)


class Watch:
    """The count. `is_sent`: bytes count half when written, half when uploaded (`sent`)."""

    def __init__(self, progress: Progress | None, *, is_sent: bool) -> None:
        self.count = 0
        self.size = 0
        self.sent = 0
        self._progress = progress
        self._is_sent = is_sent
        self._totals = (0, 0)

    def over(self, records: Iterator[_Sized], total: int, size_total: int) -> Iterator[_Sized]:
        """Yield the records and count them. `total`, `size_total`: of all; 0: unknown."""
        self._totals = total, size_total
        for record in records:
            yield record
            self.count += 1
            self.size += len(record)
            self.tell()

    def tell(self) -> None:
        if self._progress is not None:
            total, size_total = self._totals
            done = (self.size + self.sent) // 2 if self._is_sent else self.size
            self._progress(self.count, total, done, size_total)
