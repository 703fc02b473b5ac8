"""Fetches all blocks of all open objects into the cache (`ffrfs prefetch --all`).

Once started, it also fills each object that is opened later. Readers come first: its requests
wait until there are no others. Blocks that cannot be fetched are given up, and so is an object
after some failures. They still count as left, until another start tries them again; as for every
failure, there is a line in the log.

Not here: the fetching (schedule.py); whether the cache is large enough, which the daemon checks.
Concurrency: the fetcher's loop alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator

from ffrfs.errors import CacheError, RemoteError
from ffrfs.remote.fetch_counters import FetchCounters
from ffrfs.remote.fetched_object import FetchedObject, Wait
from ffrfs.remote.schedule import Schedule

_RANGE_BLOCKS = 8
_RANGES_MAX = 32  # ranges requested at a time
_LOOK_BLOCKS = 4096  # blocks whose presence is looked up at a time
_OPENED_S = 1.0
_FAILURES_MAX = 8  # failures of an object after which it is left


class Filling:
    """Fills the cache of one fetcher, after a call of start()."""

    def __init__(self, schedule: Schedule, counters: FetchCounters) -> None:
        self._schedule, self._counters = schedule, counters
        self._is_on = False
        self._room = asyncio.Semaphore(_RANGES_MAX)
        self._filling: dict[FetchedObject, asyncio.Task[None]] = {}
        self._given_up: dict[FetchedObject, int] = {}  # number of blocks
        for name in ("remote_fill_left", "remote_fill_given_up", "remote_filling"):
            counters.set(name, 0)

    def start(self, targets: Collection[FetchedObject]) -> None:
        """Begin to fill the targets that are not being filled."""
        self._is_on = True
        for target in targets:
            self._begin(target)
        # After the first steps of these tasks, which count the blocks that are left.
        asyncio.get_running_loop().call_soon(self._note_start, bool(targets))

    def _note_start(self, has_counted: bool) -> None:
        if has_counted:
            self._counters.set("remote_filling", 1)
        self._counters.add("remote_fills")

    def follow(self, target: FetchedObject) -> None:
        """Fill an object that has been opened, if filling is on."""
        if self._is_on:
            self._begin(target)
            # After another fetcher has ended, the other objects are opened meanwhile.
            later = asyncio.get_running_loop().call_later
            later(_OPENED_S, self._counters.set, "remote_filling", 1)

    def _begin(self, target: FetchedObject) -> None:
        # Objects without an identity are not kept on disk.
        if target not in self._filling and target.pin.is_identified:
            task = asyncio.get_running_loop().create_task(self._fill(target))
            self._filling[target] = task

    async def _fill(self, target: FetchedObject) -> None:
        again = [each for each in self._given_up if each is target or not each.followers]
        gone = sum(map(self._given_up.pop, again))
        left = sum(count for _, count in _missing(target))
        self._counters.add("remote_fill_left", left - gone)
        self._counters.add("remote_fill_given_up", -gone)
        failed: list[int] = []  # numbers of blocks
        tasks: set[asyncio.Task[None]] = set()
        for first, absent in _missing(target):
            await self._room.acquire()
            if len(failed) > _FAILURES_MAX or not target.followers or self._is_refused(target):
                self._room.release()
                break
            count = min(absent, left)  # blocks may have been evicted meanwhile
            left -= count
            task = asyncio.get_running_loop().create_task(self._bring(target, first, count, failed))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        was_closed = not target.followers
        if tasks:
            await asyncio.wait(tasks)
        has_failed = bool(failed) or target.broken is not None
        lost = sum(count for _, count in _missing(target)) if has_failed else 0
        if lost:
            self._given_up[target] = lost
        self._counters.add("remote_fill_given_up", lost)
        self._counters.add("remote_fill_left", lost - left - sum(failed))
        del self._filling[target]
        if was_closed and target.followers:  # another worker has opened it meanwhile
            self._begin(target)

    def _is_refused(self, target: FetchedObject) -> bool:
        return target.refusal(asyncio.get_running_loop().time()) is not None

    async def _bring(
        self, target: FetchedObject, first: int, count: int, failed: list[int]
    ) -> None:
        ended: asyncio.Future[RemoteError | None] = asyncio.get_running_loop().create_future()
        error = None
        try:
            if count and target.followers:
                self._schedule.want(target, Wait(first, count, ended.set_result), urgent=False)
                error = await ended
        except CacheError:  # the object was closed meanwhile
            pass
        finally:
            self._room.release()
        if error is None:
            self._counters.add("remote_fill_left", -count)
        else:
            failed.append(count)


def _missing(target: FetchedObject) -> Iterator[tuple[int, int]]:
    """Yield runs of absent blocks as (first, count), looked up as the caller goes on."""
    for begin in range(0, target.block_count, _LOOK_BLOCKS):
        count = min(_LOOK_BLOCKS, target.block_count - begin)
        present = target.cached.present(begin, count)
        place = 0
        while (first := present.find(b"\0", place)) >= 0:
            place = first + 1
            while place < min(count, first + _RANGE_BLOCKS) and not present[place]:
                place += 1
            yield begin + first, place - first
