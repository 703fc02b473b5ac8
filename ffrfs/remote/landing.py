"""One range on its way into the cache: each piece is written where it was received.

Its blocks are claimed before the request. They are marked as present together when all of them are
written, or, if the range ends early, the blocks that came. A thread that was given up, because its
server or its disk hung, may return at any time: it begins no write after end(). A write that has
begun before still ends, and the blocks stay claimed until then, so that no other process fills
them at the same time.

Not here: which ranges are fetched (schedule.py), the cache (ffrfs.cache).
Concurrency: take() in one thread at a time, all else in the fetcher's loop.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ffrfs.errors import RemoteError, describe
from ffrfs.remote.protocol import BLOCK_SIZE

if TYPE_CHECKING:  # loaded while a server is being asked: object_fetcher.py
    from ffrfs.cache.cached_object import CachedObject


class Landing:
    """`size` bytes from block `first` on; of these blocks, `numbers` are claimed in `cached`."""

    def __init__(self, cached: CachedObject, numbers: Iterable[int], first: int, size: int) -> None:
        self.cached = cached
        self.offset, self.size = first * BLOCK_SIZE, size
        self.failure: OSError | None = None  # of the cache
        self._numbers = sorted(numbers)
        self._begin()
        self._mutex = threading.Lock()  # guards the two below; never held while waiting for a disk
        self._has_ended = False
        self.is_storing = False

    def _begin(self) -> None:
        self._runs = list(_runs(self._numbers))  # of blocks that are claimed, and not published yet
        self._at = self.offset
        self._is_prepared = False

    def move(self, cached: CachedObject) -> None:
        """Begin again, with another cache; no thread is in take()."""
        self._release()
        self.cached, self.failure = cached, None
        for number in self._numbers:
            cached.claim(number)
        self._begin()

    def take(self, piece: memoryview) -> None:
        """Write the next bytes. Raises RemoteError if that failed, or after end()."""
        with self._mutex:
            if self._has_ended:
                raise RemoteError("the range was given up")
            self.is_storing = True
        try:
            self._store(piece)
        except OSError as error:
            self.failure = error
            raise RemoteError(f"cannot be stored: {describe(error)}") from None
        finally:
            with self._mutex:
                self.is_storing = False
                has_ended = self._has_ended
            if has_ended:
                self._release()

    def end(self) -> None:
        """Write nothing more, and release the blocks that are not marked as present."""
        with self._mutex:
            self._has_ended = True
            is_storing = self.is_storing
        if not is_storing:
            self._release()

    def _store(self, piece: memoryview) -> None:
        if not self._is_prepared:
            for first, count in self._runs:
                self.cached.prepare(first, count)
            self._is_prepared = True
        stop = self._at + len(piece)
        for first, count in self._runs:  # the bytes between them are dropped
            low = max(first * BLOCK_SIZE, self._at)
            high = min((first + count) * BLOCK_SIZE, stop)
            if low < high:
                self.cached.write(low, piece[low - self._at : high - self._at])
        self._at = stop
        if stop == self.offset + self.size:
            self._publish(may_sync=True)

    def _publish(self, *, may_sync: bool) -> None:
        """Mark the blocks that were written to their end as present."""
        is_whole = self._at == self.offset + self.size
        while self._runs:
            first, count = self._runs[0]
            ready = count if is_whole else min(count, self._at // BLOCK_SIZE - first)
            if ready > 0:
                self.cached.publish(first, ready, may_sync=may_sync)
                self._runs[0] = (first + ready, count - ready)
            if ready < count:
                return
            del self._runs[0]

    def _release(self) -> None:
        with contextlib.suppress(OSError):  # blocks that cannot be marked are fetched again
            self._publish(may_sync=False)  # the loop may be here
        for first, count in self._runs:
            self.cached.release(first, count)
        self._runs = []


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield runs of adjacent numbers as (first, count)."""
    place = 0
    while place < len(numbers):
        end = place + 1
        while end < len(numbers) and numbers[end] == numbers[end - 1] + 1:
            end += 1
        yield numbers[place], end - place
        place = end
