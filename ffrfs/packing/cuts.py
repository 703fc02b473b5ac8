"""Cuts records into the shards of a set, and computes its id: one rule for every way to pack.

Records are known by their costs (native/entries/record_costs.h), in blocks: of a list in
memory, or of the file of a plan. Only the blocks in which a shard begins are read record by record.

Concurrency: one thread.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Protocol

from ffrfs._native import PACK_COST, EntryList
from ffrfs.packing.pack_file import Run
from ffrfs.packing.sources.options import PackOptions

ID_SIZE = 16

# The size of a block of a list in memory, in records.
_BATCH_COUNT = 4096
_BLOCKS_KEPT = 2  # in which a shard begins, or ends


class Blocks(Protocol):
    """Records in blocks: the number of records of each block, and their cost in a pack."""

    @property
    def counts(self) -> Sequence[int]: ...
    @property
    def costs(self) -> Sequence[int]: ...
    def load(self, block: int) -> Sequence[int]:
        """Return the cost of each record of a block."""
        ...


def cut(blocks: Blocks, shards: int | None, shard_size: int | None) -> Iterator[int]:
    """Yield the first record of each shard.

    There are at most `shards` of about equal size, each with a record if there are any; or as
    few as possible of at most `shard_size` bytes, where a larger record is alone.
    """
    cutter = _Cutter(blocks)
    return cutter.of_size(shard_size) if shard_size else cutter.into(shards or 1)


def runs_of(entries: EntryList, options: PackOptions) -> list[Run]:
    """Return the shards of a list in memory."""
    count = entries.record_count
    shards, shard_size = options.shards, options.shard_size
    is_one = not shard_size and shards in (None, 1)
    first = [0] if is_one else list(cut(_Listed(entries), shards, shard_size))
    return [Run(at, end - at) for at, end in zip(first, [*first[1:], count], strict=True)]


class _Listed:
    """The records of a list in memory."""

    def __init__(self, entries: EntryList) -> None:
        self._entries = entries
        count = entries.record_count
        firsts = range(0, count, _BATCH_COUNT)
        self.counts = [min(_BATCH_COUNT, count - first) for first in firsts]
        self.costs = [sum(self.load(block)) for block in range(len(firsts))]

    def load(self, block: int) -> Sequence[int]:
        return self._entries.costs(block * _BATCH_COUNT, self.counts[block])


class _Cutter:
    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._counts = list(accumulate(blocks.counts, initial=0))
        self._costs = list(accumulate(blocks.costs, initial=0))
        self._load = lru_cache(_BLOCKS_KEPT)(self._sums)

    def into(self, count: int) -> Iterator[int]:
        all_records, total = self._counts[-1], self._costs[-1]
        first = 0
        yield first
        for left in range(max(1, min(count, all_records)), 1, -1):
            # Each shard takes its part of the rest, and leaves one record for each later shard.
            before = self._before(first)
            nearest = self._nearest(before + (total - before) // left)
            first = min(max(nearest, first + 1), all_records - (left - 1))
            yield first

    def of_size(self, size_max: int) -> Iterator[int]:
        first = 0
        while first < max(self._counts[-1], 1):
            yield first
            most = self._before(first) + max(size_max - PACK_COST, 0)
            first = max(self._within(most), first + 1)

    def _nearest(self, cost: int) -> int:
        """Return the number of records before the boundary that is nearest to `cost`."""
        below = self._within(cost)
        if below == self._counts[-1]:
            return below
        before, after = self._before(below), self._before(below + 1)
        return below if cost - before <= after - cost else below + 1

    def _within(self, cost: int) -> int:
        """Return how many records cost at most `cost` together."""
        block = bisect_right(self._costs, cost) - 1
        if block == len(self._costs) - 1:
            return self._counts[-1]
        return self._counts[block] + bisect_right(self._load(block), cost - self._costs[block]) - 1

    def _before(self, record: int) -> int:
        """Return the cost of the records before this one."""
        block = bisect_right(self._counts, record) - 1
        number = record - self._counts[block]
        return self._costs[block] + (self._load(block)[number] if number else 0)

    def _sums(self, block: int) -> list[int]:
        """Return the cost before each record of a block, within the block."""
        return list(accumulate(self._blocks.load(block), initial=0))


class ListingDigest:
    """A digest of the files that have records, in order: names, sizes, and times if they differ.

    Links and empty directories do not count: they are in one shard, and all others are the same.
    """

    def __init__(self, *, has_times: bool) -> None:
        self._names = hashlib.sha256()
        self._numbers = [hashlib.sha256() for _ in range(1 + has_times)]

    def add(self, names: bytes, sizes: bytes, times: bytes) -> None:
        """Add the next files, as EntryList.listing() gives them."""
        self._names.update(names)
        for digest, numbers in zip(self._numbers, (sizes, times), strict=False):
            digest.update(numbers)

    def set_id(self, options: PackOptions) -> bytes:
        """Return the id of a set of these files that is cut by these options, always the same."""
        cuts = repr((options.shards, options.shard_size))
        whole = hashlib.sha256(cuts.encode() + self._names.digest())
        for digest in self._numbers:
            whole.update(digest.digest())
        return whole.digest()[:ID_SIZE]


def set_id_of(entries: EntryList, options: PackOptions) -> bytes:
    """Return the id of the set that a list in memory becomes."""
    digest = ListingDigest(has_times=options.time_ns is None)
    count = entries.record_count
    for first in range(0, count, _BATCH_COUNT):
        digest.add(*entries.listing(first, min(_BATCH_COUNT, count - first)))
    return digest.set_id(options)
