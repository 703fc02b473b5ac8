"""Plan and run(): which files become which shard, in a file that any number of workers use.

Not here: making a plan (planning.py), a shard (pack_task.py), a set by an engine (packing.py),
the end of a set (manifest.py). Concurrency: a Plan may be used by any thread, one at a time.
"""

from __future__ import annotations

import os
from typing import TypeAlias, Unpack

from ffrfs.cluster.file_task import carried
from ffrfs.cluster.pack_task import PackTask, is_made_of, run_task
from ffrfs.cluster.piece import WAITING_PREFIX, bad_plan
from ffrfs.cluster.plan_file import PlanFile
from ffrfs.cluster.request import Header
from ffrfs.cluster.row import Making, MakingKeywords, Row
from ffrfs.packing.cuts import ID_SIZE
from ffrfs.packing.places import shard_name
from ffrfs.remote.url import is_url

PathType: TypeAlias = str | os.PathLike[str]


class Plan(PlanFile):
    """The plan in the file `path`. Raises FormatError, ChecksumError if it is damaged, OSError."""

    def __init__(self, path: PathType) -> None:
        super().__init__(os.fspath(path))
        try:
            self.header = Header.parse(self.first, self.path)
            self.request = self.header.request
            self.set_id = _id_of(self.header.set_id or self.table.get("set_id"), self.path)
            self.own_id = _id_of(self.table.get("plan_id"), self.path)
            self._firsts = self._firsts_of(self.table.get("records", []))
        except BaseException:
            self.close()
            raise

    def _firsts_of(self, found: object) -> list[int]:
        """Return the first record of each shard of an archive; other plans need none."""
        if self.header.kind != "archive":
            return []
        if (
            not isinstance(found, list)
            or len(found) != len(self.shards)
            or not all(type(first) is int for first in found)
            or found != sorted({*found})
            or found[:1] != [0]
        ):
            raise bad_plan(self.path, "its table is damaged")
        return found

    def __len__(self) -> int:
        """Return the number of shards."""
        return len(self.shards)

    @property
    def target(self) -> str:
        return self.request.target

    @property
    def key(self) -> str:
        """Return the key that the manifest has when the set is complete."""
        return str(self.table.get("key", ""))

    @property
    def place(self) -> str:
        """Return the directory, or its URL, in which shards appear.

        Shards that are added to a set wait in a directory of their own until all exist.
        """
        if self.header.set_id is None:
            return self.target
        return os.path.join(self.target, f"{WAITING_PREFIX}{self.own_id.hex()[:16]}")

    def moved(self, number: int) -> str:
        """Return the place of a shard in the complete set."""
        return os.path.join(self.target, shard_name(self.header.first_number + number))

    def task(self, number: int, **making: Unpack[MakingKeywords]) -> PackTask:
        """Return the task that makes shard `number` of the plan, counted from 0."""
        how = Making(**making)
        part = self.shards[number]
        first = self.header.first_number
        is_added = self.header.set_id is not None
        # In a bucket shards are added one after the other, so that the set lacks none meanwhile.
        count = number + 1 if is_added and is_url(self.target) else len(self)
        shard = (self.set_id, first + number, first + count)
        pieces = self.pieces(number)
        place = self.place
        if is_added and is_made_of(
            self.moved(number), shard, pieces, in_part=how.on_error != "stop"
        ):
            place = self.target
        return PackTask(
            kind=self.header.kind,
            sources=self.request.sources,
            options=self.request.options,
            first=self._firsts[number : number + 2],
            state=self.table.get("state"),
            target=f"{place.rstrip('/')}/{shard_name(first + number)}",
            shard=shard,
            file_count=part.file_count,
            byte_count=part.byte_count,
            pieces=pieces,
            time_ns=self.request.time_ns,
            making=how,
            environment=carried(),
        )


def run(plan: Plan, number: int, **making: Unpack[MakingKeywords]) -> Row:
    """Make shard `number` of `plan` in this process, with `jobs` threads, unless it exists.

    It may run anywhere, any number of times, also at the same time: the shard's bytes are the
    same. `on_error`: "stop" makes no shard if a file is not as it was listed, "skip" and "record"
    leave the file out; the row names it. Raises PackError, OSError, RemoteError.
    """
    return run_task(plan.task(number, **making))


def _id_of(text: object, path: str) -> bytes:
    try:
        found = bytes.fromhex(str(text))
    except ValueError:
        found = b""
    if len(found) != ID_SIZE:
        raise bad_plan(path, "it has no id")
    return found
