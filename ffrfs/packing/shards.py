"""Makes packs by threads of this process: a plan in memory, its tasks, its end.

A pack takes a few calls of the native core, which hold no GIL and call `tick` about ten times
a second: then a thread checks whether it should go on.

Not here: the sources (ffrfs.packing.sources), where packs appear (places.py), plans in files
(ffrfs.cluster).
Concurrency: call it from any thread; `tick` is called from that one alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from ffrfs.packing.driver import drive
from ffrfs.packing.pack_file import Run, write_pack
from ffrfs.packing.places import Place
from ffrfs.packing.sources.contents import Contents, Tick


def write_shards(  # noqa: PLR0913, PLR0917 - all of a set
    contents: Contents, runs: Sequence[Run], place: Place, set_id: bytes, jobs: int, tick: Tick
) -> None:
    """Write a pack of each run, all of them or none, with `jobs` threads in all.

    Raises the exception of the first task that fails. No thread writes after this returns.
    """
    # A stream is read front to end.
    most = 1 if contents.is_stream else min(jobs, place.at_a_time or os.cpu_count() or 1)
    count = min(len(runs), most)
    share = 1 if contents.is_stream else jobs // count
    stopped = Event()
    left = iter(range(len(runs)))
    # The progress of the shards in work; `whole` sums up the others, as there may be thousands.
    progress: dict[int, tuple[int, int]] = {}
    whole = [0, 0]

    def run(number: int) -> None:
        def note(files: int, size: int) -> None:
            if stopped.is_set():
                raise _StoppedError
            progress[number] = files, size
            if count == 1:  # cheap, because it may be called for each file
                tick(whole[0] + files, whole[1] + size)

        notes = _HalfAndHalf(note) if place.uploads else None
        note(0, 0)
        write_pack(
            contents,
            place.place_of(number),
            runs[number],
            share,
            notes.made if notes else note,
            shard=place.shard(set_id, number, len(runs)),
            force=place.force,
        )
        place.give(number, notes.sent if notes else note)
        if count == 1:
            end(number)

    def end(number: int) -> None:
        for column, ended in enumerate(progress.pop(number)):
            whole[column] += ended

    def done(number: int, result: Exception | None) -> None:
        if result is not None:
            raise result
        end(number)

    def tell() -> None:
        files, sizes = zip(*progress.values(), whole, strict=True)
        tick(sum(files), sum(sizes))

    with place.writing():
        if count == 1:
            for number in left:
                run(number)
            return
        with ThreadPoolExecutor(count) as pool:
            try:
                drive(pool, count, run, lambda: next(left, None), done, tell)
            finally:
                stopped.set()


class _StoppedError(Exception):
    """Ends a thread whose pack is not wanted any more; callers never see it."""


class _HalfAndHalf:
    """The ticks of one pack: its bytes count half when they are packed, half when they are sent."""

    def __init__(self, tick: Tick) -> None:
        self._tick = tick
        self._files = 0
        self._size = 0

    def made(self, files: int, size: int) -> None:
        self._files, self._size = files, size
        self._tick(files, size // 2)

    def sent(self, done: int, whole: int) -> None:
        sent = self._size if done >= whole else self._size * done // whole
        self._tick(self._files, (self._size + sent) // 2)
