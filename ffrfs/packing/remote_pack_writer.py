"""Packs that go to a bucket: one, a new set, or more shards of a set that is there.

Two are under way at a time, so that one is uploaded while the next is made: local space for two
suffices. If anything fails, what was uploaded of a set is removed again. A SIGKILL leaves some of
its shards: a new set that lacks some is not opened, and shards that were added are whole.

Not here: the temporary directory and the upload (bucket_target.py), what a set in a bucket holds
and who else adds to it (remote_set.py), sets in local directories (pack_set_writer.py).
Concurrency: one thread, and those of shard_threads.py below it.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Self

from ffrfs.packing.bucket_target import BucketTarget
from ffrfs.packing.pack_file import Run, ShardOf, write_pack
from ffrfs.packing.pack_set_writer import shard_name
from ffrfs.packing.remote_set import RemoteSet
from ffrfs.packing.shard_threads import Write, write_in_turn, write_side_by_side
from ffrfs.packing.sources.contents import Contents, Tick
from ffrfs.packing.sources.existing_set import ExistingSet
from ffrfs.remote.url import RemoteUrl

_AT_A_TIME = 2
_TURN_S = 0.1


class RemotePackWriter:
    """Writes the pack at a URL, or, if `is_set`, the shards of the directory there.

    `append`: the set is there, and gets more. `tmp_dir`: where packs are made (None: $TMPDIR, or
    as tempfile has it). Raises PackError if something is there that must not be replaced,
    RemoteError, OSError.
    """

    def __init__(
        self, path: str, *, is_set: bool, append: bool, force: bool, tmp_dir: str | None
    ) -> None:
        self.path = path
        self._target = BucketTarget(path, is_set=is_set, tmp_dir=tmp_dir, as_in="data.ffr")
        self._set: RemoteSet | None = None
        try:
            if append:
                self._set = RemoteSet(self._target)
            elif is_set:
                self._target.refuse_content(", or add to a set with --append")
            else:
                self._target.may_replace(force)
            self.identity = self._target.identity
        except BaseException:
            self.close()
            raise

    @property
    def existing(self) -> ExistingSet | None:
        return self._set.existing if self._set else None

    def write(
        self,
        contents: Contents,
        runs: list[Run],
        jobs: int,
        tick: Tick,
        *,
        set_id: bytes,
    ) -> None:
        """Write a pack of each run, all of them or none. Raises PackError, RemoteError, OSError."""
        try:
            if self._set is not None:
                self._set.lock()
            packs = self._packs(contents, runs, set_id)
            if contents.is_stream:
                write_in_turn(packs, 1, tick)
            else:
                write_side_by_side(packs, jobs, tick, at_a_time=_AT_A_TIME)
        except BaseException:
            self._target.take_back()
            raise

    def _packs(self, contents: Contents, runs: list[Run], set_id: bytes) -> list[Write]:
        url = self._target.url
        if not self._target.is_set:
            return [partial(self._write_one, contents, url, runs[0])]
        if self._set is None:
            first, count = 0, len(runs)
        else:
            set_id, first, count = self._set.id, self._set.shard_count, 0
        return [
            partial(
                self._write_one,
                contents,
                url.child(shard_name(number)),
                run,
                # Of shards that are added each knows of those before it, so that the set lacks
                # none while they come.
                shard=(set_id, number, count or number + 1),
            )
            for number, run in enumerate(runs, first)
        ]

    def _write_one(  # noqa: PLR0913 - as write_pack()
        self,
        contents: Contents,
        url: RemoteUrl,
        run: Run,
        jobs: int,
        tick: Tick,
        *,
        shard: ShardOf | None = None,
    ) -> None:
        place = self._target.place_of(url)
        progress = _HalfAndHalf(tick)
        write_pack(contents, place, run, jobs, progress.made, shard=shard)
        progress.begin_upload(os.path.getsize(place))
        if self._set is None:
            self._target.send(url, progress.sent)
            return
        while not self._set.is_next(url):  # its thread may end us by the tick
            progress.sent(0)
            time.sleep(_TURN_S)
        self._set.check(url)
        self._target.send(url, progress.sent)
        self._set.note(url)

    def close(self) -> None:
        if self._set is not None:
            self._set.close()
        self._target.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _HalfAndHalf:
    """The ticks of one pack: its bytes count half when they are packed, half when they are sent."""

    def __init__(self, tick: Tick) -> None:
        self._tick = tick
        self._files = 0
        self._size = 0
        self._pack_size = 0

    def made(self, files: int, size: int) -> None:
        self._files, self._size = files, size
        self._tick(files, size // 2)

    def begin_upload(self, pack_size: int) -> None:
        self._pack_size = pack_size

    def sent(self, size: int) -> None:
        whole = self._size if size >= self._pack_size else self._size * size // self._pack_size
        self._tick(self._files, (self._size + whole) // 2)
