"""Decides which ranges are fetched when: demand first, adjacent blocks together.

There is a queue of blocks that readers wait for, and one of blocks ahead of need. A block is in
one of the queues, in flight, or elsewhere: another process is fetching it. However many clients
wait for a block, one fetch of it runs at a time; between processes, the locks of the cache
ensure that.

Not here: number and size of ranges (pace.py), what threads do with a range (landing.py), links
(link.py), the cache (ffrfs.cache).
Concurrency: the fetcher's loop alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from ffrfs.errors import ChangedAtOriginError, RemoteError, RemoteTimeoutError, describe
from ffrfs.remote.changed_before import ChangedBefore
from ffrfs.remote.fetch_counters import FetchCounters
from ffrfs.remote.fetched_object import Block, FetchedObject, Wait
from ffrfs.remote.landing import Landing
from ffrfs.remote.pace import RANGES_FEW, RANGES_MAX, Pace
from ffrfs.remote.protocol import BLOCK_SIZE
from ffrfs.remote.start import Start

_AHEAD_SHARE = 3 / 4  # of the bytes in flight; the rest is for blocks that readers wait for
_CACHES_MAX = 3  # a range is fetched into so many caches, if one after the other fails
_RANGE_BLOCKS_FEW = 2
_LOOK_S, _LOOK_MAX_S = 0.01, 0.1
_ELSEWHERE_SHARE = 1 / 3  # of the timeout; after that the block is fetched here as well

Queue = dict[Block, None]  # in the order of insertion


class ObjectOwner(Protocol):
    """The fetcher, as the schedule sees it."""

    def move(self, target: FetchedObject, error: OSError | None) -> None:
        """Give the object another cache. `error`: of the old one; None: a block stays locked there.

        Raises OSError if descriptors or memory are lacking.
        """
        ...

    def log_failure(self, target: FetchedObject, error: RemoteError) -> None: ...

    def close_if_idle(self, target: FetchedObject) -> None: ...


class Schedule:
    """The queues of blocks, and the ranges in flight."""

    def __init__(self, counters: FetchCounters, owner: ObjectOwner, start: Start) -> None:
        self.pace = Pace()
        self._counters, self._owner = counters, owner
        self._timeout_s = start.settings.timeout_s
        # Blocks that are not whole yet cannot be evicted: a cache full of them has no room left.
        self._flight_size = min(start.flight_size, start.settings.cache_size // 2)
        self._loop = asyncio.get_running_loop()
        self._demand: Queue = {}
        self._ahead: Queue = {}
        self._elsewhere: Queue = {}
        self._is_due = False
        self._gathering: asyncio.TimerHandle | None = None
        self._look: asyncio.TimerHandle | None = None
        self._look_s = _LOOK_S
        self._ranges = 0
        self._bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._throttled = counters["remote_throttled"]
        self._changed_before = ChangedBefore(counters)

    def want(self, target: FetchedObject, wait: Wait, urgent: bool) -> None:
        """Fetch the absent blocks of the wait; `urgent`: a reader waits for them."""
        for number in range(wait.first, wait.first + wait.count):
            block = target.blocks.get(number)
            if block is None:
                if target.cached.is_present(number):
                    continue
                if (refusal := target.refusal(self._loop.time())) is not None:
                    wait.end(refusal)
                    break
                block = target.blocks[number] = Block(target, number)
                block.urgent = urgent
                self._queue_of(block)[block] = None
            block.waits.append(wait)
            wait.left += 1
            if urgent and not block.urgent:
                self._hurry(block)
        if not wait.left:
            wait.end(None)
        self._pump_soon(urgent)

    def again(self, target: FetchedObject, wait: Wait) -> None:
        """Refetch the blocks, whose bytes in the cache are wrong; otherwise as want()."""
        now = self._loop.time()
        numbers = range(wait.first, wait.first + wait.count)
        try:
            self._counters.add("remote_blocks_again", sum(target.forget(n, now) for n in numbers))
        except OSError as error:
            try:
                self._owner.move(target, error)
            except OSError as lacking:
                return wait.end(RemoteError.at(target.pin.url.shown, describe(lacking)))
        self.want(target, wait, urgent=True)

    def used(self, target: FetchedObject, first: int, count: int) -> None:
        """Note that a client has read blocks, for the counters and the order of eviction."""
        if hit := target.note_used(first, count):
            self._counters.add("remote_blocks_hit", hit)

    def cancel(self, target: FetchedObject, wait: Wait) -> None:
        """End a wait of a client. Ranges in flight are still stored in the cache."""
        wait.cancel()
        for number in range(wait.first, wait.first + wait.count):
            block = target.blocks.get(number)
            if block is None or wait not in block.waits:
                continue
            block.waits.remove(wait)
            if not block.waits and self._unqueue(block):
                del target.blocks[number]

    def _queue_of(self, block: Block) -> Queue:
        return self._demand if block.urgent else self._ahead

    def _hurry(self, block: Block) -> None:
        was_queued = block in self._ahead
        self._ahead.pop(block, None)
        block.urgent = True
        if was_queued:
            self._demand[block] = None

    def _unqueue(self, block: Block) -> bool:
        return any(
            queue.pop(block, self) is None for queue in (self._demand, self._ahead, self._elsewhere)
        )

    def _pump_soon(self, urgent: bool) -> None:
        """Begin ranges later: the next messages may want adjacent blocks, for the same range."""
        if urgent and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._pump)
        elif not urgent and self._gathering is None:
            self._gathering = self._loop.call_later(self.pace.gather_s, self._gathered)

    def _gathered(self) -> None:
        self._gathering = None
        self._pump()

    def _pump(self) -> None:
        """Begin as many ranges as the limits allow."""
        self._is_due = False
        while self._demand and self._has_room(
            min(RANGES_MAX, self.pace.ranges_max + RANGES_FEW), self._flight_size
        ):
            self._begin(self._demand)
        while (
            self._ahead
            and self._gathering is None
            and self._has_room(self.pace.ranges_max, self._flight_size * _AHEAD_SHARE)
        ):
            self._begin(self._ahead)
        self._counters.set("remote_ranges", self._ranges)

    def _has_room(self, ranges: int, size: float) -> bool:
        return self._ranges < ranges and self._bytes < size

    def _begin(self, queue: Queue) -> None:
        """Fetch the first block of the queue, and adjacent blocks of the queue."""
        block = next(iter(queue))
        target = block.target
        cached = target.cached  # the claims stay in this cache if the object moves to another one
        if not self._take(block, queue):
            return
        taken = [block]
        first = last = block.number
        blocks_max = self._range_blocks(queue)
        gap_max = self.pace.gap_blocks if self._ranges < RANGES_FEW // 2 else 0
        for step in (1, -1):
            number, gap = block.number + step, 0
            while 0 <= number < target.block_count and gap <= gap_max:
                low, high = min(first, number), max(last, number)
                if high - low >= blocks_max:
                    break
                other = target.blocks.get(number)
                if other in queue and self._take(other, queue):
                    taken.append(other)
                    first, last, gap = low, high, 0
                elif number in target.blocks or target.cached.is_present(number):
                    break  # never fetch a block twice
                else:
                    gap += 1
                number += step
        taken += self._take_gaps(target, range(first, last + 1))
        size = target.size_of(first, last - first + 1)
        landing = Landing(cached, (each.number for each in taken), first, size)
        task = self._loop.create_task(self._fetch(target, taken, landing))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        target.ranges += 1
        self._ranges += 1
        self._bytes += size

    def _range_blocks(self, queue: Queue) -> int:
        """Return the largest number of blocks for a range of this queue.

        Small ranges in parallel bring the first blocks sooner, so large ones need a long queue.
        """
        free = max(self.pace.ranges_max - self._ranges, 1)
        room = max((self._flight_size - self._bytes) // BLOCK_SIZE, 1)
        return min(self.pace.range_blocks, room, max(_RANGE_BLOCKS_FEW, len(queue) // free + 1))

    def _take_gaps(self, target: FetchedObject, numbers: range) -> Iterable[Block]:
        """Claim absent blocks in the gaps: they are fetched anyway, so they are stored too."""
        for number in numbers:
            if number not in target.blocks and not target.cached.is_present(number):
                block = target.blocks[number] = Block(target, number)
                if self._take(block, self._ahead):
                    yield block

    def _take(self, block: Block, queue: Queue) -> bool:
        """Claim the block. Return False if it is present by now, or another process fetches it."""
        queue.pop(block, None)
        target, number = block.target, block.number
        try:
            if not self._claim(block):
                return False
        except OSError as error:  # descriptors are lacking, or memory
            self._fail(block, RemoteError.at(target.pin.url.shown, describe(error)))
            return False
        if target.cached.is_present(number):
            target.cached.release(number)
            self._done(block)
            return False
        block.elsewhere_since = 0.0
        return True

    def _claim(self, block: Block) -> bool:
        """Claim the block, if need be in another cache. Raises OSError if none can be made."""
        target, number = block.target, block.number
        try:
            if target.cached.claim(number):
                return True
            failure = None
        except OSError as error:
            failure = error
        if failure is None and not self._is_too_long_elsewhere(block):
            self._wait_elsewhere(block)
            return False
        self._owner.move(target, failure)
        target.cached.claim(number)
        return True

    def _is_too_long_elsewhere(self, block: Block) -> bool:
        """Return whether the process that fetches the block seems stopped, or its server dead."""
        waited_s = self._loop.time() - block.elsewhere_since
        return block.elsewhere_since > 0 and waited_s > self._timeout_s * _ELSEWHERE_SHARE

    def _wait_elsewhere(self, block: Block) -> None:
        now = self._loop.time()
        block.elsewhere_since = block.elsewhere_since or now
        self._elsewhere[block] = None
        if self._look is None:
            self._look = self._loop.call_later(self._look_s, self._look_again)

    def _look_again(self) -> None:
        """Check whether other processes have stored the blocks that they claimed, or failed."""
        self._look = None
        blocks, self._elsewhere = self._elsewhere, {}
        for block in blocks:
            self._queue_of(block)[block] = None
        self._pump()
        same = len(self._elsewhere) == len(blocks)
        self._look_s = min(self._look_s * 1.5, _LOOK_MAX_S) if same else _LOOK_S

    async def _fetch(self, target: FetchedObject, blocks: list[Block], landing: Landing) -> None:
        begin = self._loop.time()
        try:
            await self._land(target, landing)
            now = self._loop.time()
            full = bool(self._demand or self._ahead)
            self.pace.finished(now, landing.size, now - begin, full=full)
        except Exception as error:
            failure = error
            if not isinstance(failure, RemoteError):
                failure = RemoteError.at(target.pin.url.shown, describe(error))
            landing.end()
            for block in blocks:
                if target.cached.is_present(block.number):  # it came before the failure
                    self._counters.add("remote_blocks_fetched")
                    self._done(block)
                else:
                    self._fail(block, failure)
        else:
            self._counters.add("remote_blocks_fetched", len(blocks))
            target.note_fetched(block.number for block in blocks)
            self._counters.add("remote_changed", -(target.broken is not None))
            self._changed_before.asked(target.pin, is_changed=False)
            target.broken = None
            for block in blocks:
                self._done(block)
        finally:
            target.ranges -= 1
            self._ranges -= 1
            self._bytes -= landing.size
            if self._counters["remote_throttled"] != self._throttled:
                self._throttled = self._counters["remote_throttled"]
                self.pace.throttled()
            self._owner.close_if_idle(target)
            self._pump()

    async def _land(self, target: FetchedObject, landing: Landing) -> None:
        """Fetch the range into the cache; if that fails, or has failed meanwhile, into memory."""
        last = RemoteError.at(target.pin.url.shown, "its caches fail one after the other")
        for _ in range(_CACHES_MAX):
            if landing.cached is not target.cached:
                landing.move(target.cached)
            try:
                await target.origin.read(target.pin, landing.offset, landing.size, landing.take)
            except RemoteError as error:
                if landing.is_storing:
                    why = "the disk of its cache does not take what was fetched"
                    raise RemoteTimeoutError.at(target.pin.url.shown, why) from None
                if landing.failure is None:
                    raise
                if landing.cached is target.cached:
                    self._owner.move(target, landing.failure)
                last = error
            else:
                if landing.cached is target.cached:
                    return
        raise last

    def _done(self, block: Block) -> None:
        del block.target.blocks[block.number]
        for wait in block.waits:
            wait.arrived()

    def _fail(self, block: Block, error: RemoteError) -> None:
        target = block.target
        if isinstance(error, ChangedAtOriginError):
            self._counters.add("remote_changed", target.broken is None)
            self._changed_before.asked(target.pin, is_changed=True)
            target.note_broken(error, self._loop.time())
        del target.blocks[block.number]
        self._counters.add("remote_errors")
        self._owner.log_failure(target, error)
        for wait in block.waits:
            wait.end(error)
