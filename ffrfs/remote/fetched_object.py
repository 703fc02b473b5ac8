"""An object that a fetcher has open: the blocks under way, and the requests that wait for them.

Not here: which block is next (schedule.py), where the bytes are kept (ffrfs.cache).
Concurrency: the fetcher's loop alone; close() is for a thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from ffrfs.errors import RemoteError
from ffrfs.remote.origin import Origin
from ffrfs.remote.pin import Pin
from ffrfs.remote.protocol import BLOCK_SIZE

if TYPE_CHECKING:  # loaded while a server is being asked: object_fetcher.py
    from ffrfs.cache.cached_object import CachedObject

AGAIN_S = 60.0
_AWAY_S = 2.0  # between two looks whether an object that was replaced or removed is there again
_AGAIN_TIMES = 2  # refetches of a block within AGAIN_S
_AGAIN_MAX = 4096
_UNREAD_MAX = 65536  # beyond that, a first read counts as a hit


class Wait:
    """A request, answered when all its blocks are present, or when one cannot be fetched."""

    __slots__ = ("_answer", "count", "first", "left")

    def __init__(
        self, first: int, count: int, answer: Callable[[RemoteError | None], None]
    ) -> None:
        self.first, self.count = first, count
        self.left = 0  # blocks that are still absent
        self._answer: Callable[[RemoteError | None], None] | None = answer

    def arrived(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.end(None)

    def end(self, error: RemoteError | None) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer(error)

    def cancel(self) -> None:
        self._answer = None


class Block:
    """An absent block that a client wants."""

    __slots__ = ("elsewhere_since", "number", "target", "urgent", "waits")

    def __init__(self, target: FetchedObject, number: int) -> None:
        self.target, self.number = target, number
        self.urgent = False
        self.waits: list[Wait] = []
        self.elsewhere_since = 0.0  # when another process was seen to fetch it; 0: none does


class Follower(Protocol):
    """A link that has an object open."""

    def moved(self, target: FetchedObject) -> None: ...


class FetchedObject:
    """An object in the version of its pin."""

    def __init__(self, pin: Pin, origin: Origin, cached: CachedObject) -> None:
        self.pin, self.origin, self.cached = pin, origin, cached
        # Caches that failed; ranges in flight may still use them.
        self.retired: list[CachedObject] = []
        self.blocks: dict[int, Block] = {}  # wanted, or being fetched
        self.ranges = 0  # in flight
        self.followers: list[Follower] = []  # a link is in here once for each of its numbers
        self.broken: RemoteError | None = None  # how it was replaced or removed at its origin
        self._broken_until = 0.0
        self.logged = ""  # the object's last failure in the log
        self._again: dict[int, tuple[float, int]] = {}  # block → start of its period, refetches
        self._unread: set[int] = set()  # blocks that were fetched, and not read since

    @property
    def block_count(self) -> int:
        return -(-self.pin.size // BLOCK_SIZE)

    def close(self) -> None:
        """Close its caches; this syncs the fetched blocks, so it waits for a disk."""
        for cached in (self.cached, *self.retired):
            with contextlib.suppress(OSError):
                cached.close()

    def note_broken(self, error: RemoteError, now: float) -> None:
        self.broken, self._broken_until = error, now + _AWAY_S

    def refusal(self, now: float) -> RemoteError | None:
        """Return why its origin must not be asked for blocks now; None if it may be asked.

        A server may lose an object for a moment, so it is asked again after a pause. An object
        without an identity stays lost, because another version could not be told from it.
        """
        is_due = self.pin.is_identified and now >= self._broken_until
        return None if is_due else self.broken

    def size_of(self, first: int, count: int) -> int:
        """Return the size of `count` blocks in bytes; the last block may be shorter."""
        return min((first + count) * BLOCK_SIZE, self.pin.size) - first * BLOCK_SIZE

    def note_fetched(self, blocks: Iterable[int]) -> None:
        if len(self._unread) < _UNREAD_MAX:
            self._unread.update(blocks)

    def note_used(self, first: int, count: int) -> int:
        """Note that clients read blocks; return how many of them were not fetched for this read."""
        with contextlib.suppress(OSError):  # the order of eviction is advice
            self.cached.touch(first, count)
        fetched = self._unread.intersection(range(first, first + count))
        self._unread -= fetched
        return count - len(fetched)

    def forget(self, block: int, now: float) -> bool:
        """Drop a block with wrong bytes. Return False if it was refetched often enough."""
        if block in self.blocks or not self.cached.is_present(block):
            return False
        since, times = self._again.get(block, (now, 0))
        if now - since >= AGAIN_S:
            since, times = now, 0
        if times == _AGAIN_TIMES:
            return False
        if len(self._again) >= _AGAIN_MAX:
            old = [number for number, (then, _) in self._again.items() if now - then >= AGAIN_S]
            for number in old or [next(iter(self._again))]:
                del self._again[number]
        self._again[block] = (since, times + 1)
        self.cached.forget(block)
        return True
