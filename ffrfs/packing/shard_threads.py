"""The packs of a set, written side by side in threads, or in turn.

A pack takes a few calls of the native core, which hold no GIL and call `tick` about ten times
a second: that is when a thread looks whether it should go on.

Concurrency: call it from any thread; `tick` is called from that one alone.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from threading import Event
from typing import TypeAlias

from ffrfs.packing.sources.contents import Tick

_TICK_S = 0.1

# Writes a pack: with so many threads, telling how far it is. What `tick` raises ends it.
Write: TypeAlias = Callable[[int, Tick], object]


def write_in_turn(packs: Iterable[Write], jobs: int, tick: Tick) -> None:
    """Write one pack after the other, in this thread."""
    total = _Total(tick)
    for write in packs:
        write(jobs, total)
        total.begin_next()


def write_side_by_side(
    packs: Sequence[Write], jobs: int, tick: Tick, *, at_a_time: int | None = None
) -> None:
    """Write all packs, with `jobs` threads in all; as many at a time as there are cores.

    Raises what the first one raises that fails. Whatever ends it, no thread writes any more.
    """
    count = min(len(packs), jobs, at_a_time or os.cpu_count() or 1)
    waiting = deque(packs)
    stopped = Event()
    done = [(0, 0)] * count

    def run(number: int) -> None:
        def note(files: int, size: int) -> None:
            if stopped.is_set():
                raise _StoppedError
            done[number] = files, size

        write_in_turn(_taken(waiting), jobs // count, note)

    with ThreadPoolExecutor(count) as pool:
        try:
            running = {pool.submit(run, number) for number in range(count)}
            while running:
                ended, running = wait(running, _TICK_S, FIRST_COMPLETED)
                for future in ended:
                    future.result()
                tick(sum(files for files, _ in done), sum(size for _, size in done))
        finally:
            waiting.clear()
            stopped.set()


class _StoppedError(Exception):
    """Ends a thread whose pack is not wanted any more; it goes no further."""


def _taken(waiting: deque[Write]) -> Iterator[Write]:
    while True:
        try:
            yield waiting.popleft()
        except IndexError:  # another thread has taken the last one
            return


class _Total:
    """Takes the ticks of one pack after the other, and gives those of all."""

    def __init__(self, tick: Tick) -> None:
        self._tick = tick
        self._before = (0, 0)
        self._now = (0, 0)

    def begin_next(self) -> None:
        self._before = self._now

    def __call__(self, files: int, size: int) -> None:
        self._now = (self._before[0] + files, self._before[1] + size)
        self._tick(*self._now)
