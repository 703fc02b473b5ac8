"""Choices: which items a query shows, and in which order; found by a pass in the background.

Sizes and checksums are compared in bulk, paths one by one as the index gives them, features by
reading the records. The results of a few queries are kept: 8 bytes an item.

Concurrency: any thread. A page shows what has been found so far.
"""

from __future__ import annotations

import fnmatch
import hashlib
import posixpath
import re
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from os import fsdecode, fsencode
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request

from ffrfs._native import Records
from ffrfs.errors import OptionError
from ffrfs.folder.read_each import Bad, read_each
from ffrfs.sizes import parse_size
from ffrfs.tfrecord.examples.content import message_of
from ffrfs.tfrecord.framing import FRAME_SIZE
from ffrfs.view.collection import Collection, ExampleCollection, FileCollection, Item
from ffrfs.view.conditions import Condition, parse_conditions
from ffrfs.view.job import Job
from ffrfs.view.page import path_parameter

_KEPT_SIZE = 64 << 20  # bytes of all results
_KEPT_COUNT = 8
_STEP = 256  # items between two breaks
_BATCH_SIZE = 8 << 20  # bytes of records that are read at a time
_RECORD_SIZE_MAX = 64 << 20  # features of a larger record are not looked at
# "": by record, or by path within a directory.
_SORTS = ("", "record", "path", "size", "-size")
_ONLY = ("", "damaged", "duplicates")

_Pass: TypeAlias = Job[NDArray[np.uint64]]
_Found: TypeAlias = Iterator[tuple[int, int]]  # what Choice.items() needs, and a record number


@dataclass(frozen=True)
class Query:
    """Parameters of the gallery's URL. `damaged`: record numbers, if `only` is "damaged"."""

    folder: str = ""
    name: str = ""
    type: str = ""
    size_min: str = ""
    size_max: str = ""
    only: str = ""
    where: str = ""
    sort: str = ""
    damaged: tuple[int, ...] = ()

    @staticmethod
    def parameters() -> list[str]:
        return [field.name for field in fields(Query) if field.name != "damaged"]

    @classmethod
    def of(cls, request: Request, damaged: Sequence[int] = ()) -> Query:
        """Raises OptionError for an invalid value."""
        names = cls.parameters()
        given: dict[str, Any] = {name: path_parameter(request, name) or "" for name in names}
        query = cls(**given)
        if query.sort not in _SORTS or query.only not in _ONLY:
            raise OptionError("sort= and only= have the values that the form has")
        for size in (query.size_min, query.size_max):
            if size:
                parse_size(size, example="10K or 2M")
        if query.where:
            parse_conditions(query.where)
        return replace(query, damaged=tuple(damaged)) if query.only == "damaged" else query

    @property
    def is_all(self) -> bool:
        """Whether it chooses nothing, in the order of the records or of a directory."""
        return replace(self, folder="") == Query()

    @property
    def is_by_path(self) -> bool:
        return self.sort == "path" or (self.sort == "" and self.folder != "")

    def path_filter(self) -> Callable[[str], bool] | None:
        """Return whether a path is chosen; None: all are."""
        if not (self.name or self.type):
            return None
        pattern = self.name or "*"
        if not re.search(r"[*?[]", pattern):
            pattern = f"*{pattern}*"
        matches = re.compile(fnmatch.translate(pattern)).match
        whole = "/" in pattern
        types = tuple("." + one.strip(" .").lower() for one in self.type.split(",") if self.type)

        def is_chosen(path: str) -> bool:
            name = posixpath.basename(path)
            return bool(matches(path if whole else name)) and (
                not types or name.lower().endswith(types)
            )

        return is_chosen


class Choice:
    """The result of one query. `skipped`: records whose features could not be read."""

    def __init__(self, collection: Collection, query: Query) -> None:
        self._collection = collection
        self._query = query
        self._found = array("Q")
        self.skipped = 0
        self.has_told = False  # a page has shown the error; the next request tries again
        rounds = 2 if query.only == "duplicates" and collection.kind == "examples" else 1
        self.job: _Pass = Job(self._find, collection.count * rounds, "items")
        self.job.start()

    @property
    def count(self) -> int:
        """The number of items found so far."""
        return len(self._so_far())

    @property
    def is_sorted(self) -> bool:
        """Whether found items stay where they are."""
        is_in_order = self._query.is_by_path or self._query.sort in ("", "record")
        is_grouped = self._query.only == "duplicates" or (
            self._query.sort == "record" and self._query.folder
        )
        return self.job.result is not None or (is_in_order and not is_grouped)

    def wait(self, seconds: float, count: int | None = None) -> None:
        """Wait until all have been looked at, or `count` have been found."""
        end_s = time.monotonic() + seconds
        while self.job.progress().is_running and time.monotonic() < end_s:
            if count is not None and self.is_sorted and self.count >= count:
                return
            time.sleep(0.004)

    def items(self, positions: range | Sequence[int]) -> list[Item]:
        found = self._so_far()
        ids = [int(found[position]) for position in positions if position < len(found)]
        if isinstance(self._collection, FileCollection):
            return [self._collection.by_ino(ino) for ino in ids]
        return [self._collection.item(str(number)) for number in ids]

    def _so_far(self) -> Sequence[int] | NDArray[np.uint64]:
        found, result = self._found, self.job.result
        if result is None:
            return found
        self._found = array("Q")
        return result

    def _find(self, job: _Pass) -> NDArray[np.uint64]:
        """Fill `_found`; return it in its order."""
        self._found = array("Q")
        self.skipped = 0
        if isinstance(self._collection, FileCollection):
            return self._find_files(self._collection, job)
        assert isinstance(self._collection, ExampleCollection)
        return self._find_examples(self._collection, job)

    def _find_files(self, collection: FileCollection, job: _Pass) -> NDArray[np.uint64]:
        query = self._query
        sizes = np.concatenate([np.diff(pack.offsets()) for pack in collection.tree.volume.packs])
        order = _order_by_size(query, sizes)
        chosen = self._chosen(sizes)
        if query.only == "duplicates":
            tree = collection.tree
            files = tree.to_open([*map(fsdecode, tree.volume.paths)])
            with closing(Records([*map(fsencode, files)])) as records:
                sums = np.concatenate([*map(records.checksums, range(len(files)))])
            groups = (sums.astype(np.uint64) << np.uint64(32)) ^ sizes.astype(np.uint64)
            chosen &= _is_repeated(groups)
            order = groups if query.sort == "" else order
        is_chosen = query.path_filter()
        is_walk = query.is_by_path or query.folder.strip("/")
        found = _walked if is_walk else _numbered
        numbers = array("Q")
        for ino, number in found(collection, query, chosen, job):
            if is_chosen is None or is_chosen(collection.tree.path(ino)):
                self._found.append(ino)
                numbers.append(number)
        if query.sort == "record" and is_walk:
            order = np.arange(len(sizes), dtype=np.uint64)
        return _sorted(self._found, numbers, order)

    def _chosen(self, sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which records can be chosen, as far as it is known without paths and bytes."""
        query = self._query
        chosen = np.ones(len(sizes), dtype=bool)
        if query.size_min:
            chosen &= sizes >= parse_size(query.size_min)
        if query.size_max:
            chosen &= sizes <= parse_size(query.size_max)
        if query.only == "damaged":
            is_damaged = np.zeros(len(sizes), dtype=bool)
            is_damaged[list(query.damaged)] = True
            chosen &= is_damaged
        return chosen

    def _find_examples(self, collection: ExampleCollection, job: _Pass) -> NDArray[np.uint64]:
        query, reader = self._query, collection.reader
        sizes = np.concatenate(
            [np.diff(reader.offsets(shard)) - FRAME_SIZE for shard in range(len(reader.paths))]
        )
        order = _order_by_size(query, sizes)
        chosen = self._chosen(sizes)
        if query.only == "duplicates":
            groups = np.arange(len(sizes), dtype=np.uint64)
            for number, record in self._records(collection, sizes, chosen, job):
                groups[number] = int.from_bytes(hashlib.sha256(record).digest()[:8], "little")
            chosen &= _is_repeated(groups)
            order = groups if query.sort == "" else order
        if query.where:
            conditions = parse_conditions(query.where)
            for number, record in self._records(collection, sizes, chosen, job):
                if self._meets(record, conditions):
                    self._found.append(number)
        else:
            self._found.extend(np.flatnonzero(chosen).tolist())
        return _sorted(self._found, self._found, order)

    def _records(
        self,
        collection: ExampleCollection,
        sizes: NDArray[np.int64],
        chosen: NDArray[np.bool_],
        job: _Pass,
    ) -> Iterator[tuple[int, bytes]]:
        numbers = np.flatnonzero(chosen)
        job.tick(len(sizes) - len(numbers))
        batches = (
            np.cumsum(sizes[numbers]) // _BATCH_SIZE * len(sizes) + np.arange(len(numbers)) // 256
        )
        for batch in np.split(numbers, np.flatnonzero(np.diff(batches)) + 1):
            small = batch[sizes[batch] <= _RECORD_SIZE_MAX].tolist()
            self.skipped += len(batch) - len(small)
            for number, found in zip(small, read_each(small, collection.reader.read), strict=True):
                if isinstance(found, Bad):
                    self.skipped += 1
                else:
                    yield number, found
            job.tick(len(batch))

    def _meets(self, record: bytes, conditions: Sequence[Condition]) -> bool:
        message = message_of(record)
        if message is None:
            self.skipped += 1
            return False
        return all(condition(message) for condition in conditions)


def _numbered(
    collection: FileCollection, query: Query, chosen: NDArray[np.bool_], job: _Pass
) -> _Found:
    file_of = collection.tree.volume.file_of
    for first in range(0, len(chosen), _STEP):
        for number in np.flatnonzero(chosen[first : first + _STEP]).tolist():
            if ino := file_of(first + number):
                yield ino, first + number
        _take_break(job, min(_STEP, len(chosen) - first))


def _walked(
    collection: FileCollection, query: Query, chosen: NDArray[np.bool_], job: _Pass
) -> _Found:
    tree = collection.tree
    for position, entry in enumerate(tree.entries(tree.folder_ino(query.folder), recursive=True)):
        record = tree.volume.record(entry.attributes.ino)
        if record is not None and chosen[record[0]]:
            yield entry.attributes.ino, record[0]
        if position % _STEP == _STEP - 1:
            _take_break(job, _STEP)


def _take_break(job: _Pass, count: int) -> None:
    """Count the items so far, and let pages have the interpreter.

    The calls into the core release it for less time than another thread needs to wake up.
    """
    job.tick(count)
    time.sleep(1e-6)


def _order_by_size(query: Query, sizes: NDArray[np.int64]) -> NDArray[np.uint64] | None:
    if not query.sort.endswith("size"):
        return None
    return (sizes if query.sort == "size" else sizes.max(initial=0) - sizes).astype(np.uint64)


def _is_repeated(groups: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which elements are there more than once."""
    _, places, counts = np.unique(groups, return_inverse=True, return_counts=True)
    repeated: NDArray[np.bool_] = counts[places] > 1
    return repeated


def _sorted(
    found: array[int], numbers: array[int], order: NDArray[np.uint64] | None
) -> NDArray[np.uint64]:
    """Return `found` in the order that their records have."""
    items = np.array(found, dtype=np.uint64)
    if order is None:
        return items
    return items[np.argsort(order[np.array(numbers, dtype=np.int64)], kind="stable")]


class Choices:
    """The results of the last queries."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._lock = threading.Lock()
        self._kept: dict[Query, Choice] = {}
        self._ending: list[_Pass] = []  # not needed any more, but they may still read

    def find(self, query: Query) -> Choice:
        with self._lock:
            choice = self._kept.pop(query, None)
            if choice is None or choice.has_told:
                choice = Choice(self._collection, query)
            self._kept[query] = choice  # the last one now
            while len(self._kept) > 1 and (
                len(self._kept) > _KEPT_COUNT
                or 8 * sum(one.count for one in self._kept.values()) > _KEPT_SIZE
            ):
                job = self._kept.pop(next(iter(self._kept))).job
                job.cancel()
                self._ending = [one for one in (*self._ending, job) if one.progress().is_running]
            return choice

    def cancel(self) -> None:
        """Tell all passes to end, and do not wait for them."""
        for choice in [*self._kept.values()]:
            choice.job.cancel()

    def close(self) -> None:
        for job in (*self._ending, *(choice.job for choice in self._kept.values())):
            job.stop()
