"""Eviction: removes the least recently used blocks of all objects of a cache.

To remove a block, `durable` is cleared and synced (once for all blocks of an object), then
`live` is cleared, then the block becomes a hole. Blocks that are being filled, here or by
another process, are skipped: an eviction never waits for the lock of a block.

Not here: when to evict, how much is held (quota.py), the list of files (directory.py, memory.py).
Concurrency: one pass at a time for each cache; the caller ensures that. A pass has a few
threads, each with objects of its own.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ffrfs.cache.files import Files, Objects
from ffrfs.cache.locks import try_lock, unlock
from ffrfs.cache.sparse import data_ranges, punch_hole
from ffrfs.cache.state_file import BLOCK_SIZE, BLOCKS_AT, StateFile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Blocks = NDArray[np.int64]
    Listed = NDArray[Any]  # of _LISTED

_LISTED = np.dtype([("age", "u8"), ("owner", "i4"), ("block", "i8"), ("size", "i8")])
_PINNED = np.uint64(1 << 63)
_SYNCS = 16  # objects that are synced at a time
_AHEAD_US = 60_000_000


@dataclass
class Survey:
    """Blocks of the cache in the order of eviction; pinned ones come last."""

    names: list[str]
    listed: Listed  # the owner of a block is the index of its object in `names`
    newest_us: int  # when the last of all blocks was used

    @property
    def unpinned_count(self) -> int:
        return int((self.listed["age"] < _PINNED).sum())


def survey(objects: Objects, count: int) -> Survey:
    """Return the blocks to evict first, at most `count`."""
    found = Survey([], np.zeros(0, _LISTED), 0)
    for name in objects.names():
        with objects.opened(name) as files:
            if files is None:
                continue
            blocks = 0
            ours = np.zeros(0, _LISTED)
            for part in (_listed(files, len(found.names), each) for each in files.present()):
                blocks += len(part)
                newest_us = int((part["age"] & ~_PINNED).max(initial=0))
                found.newest_us = max(found.newest_us, newest_us)
                ours = _oldest(ours, part, count)
            if 0 < blocks <= count:  # the last block takes the rest with it: the state file
                ours["size"][ours["age"].argmax()] += max(files.allocated() - files.size(), 0)
            found.listed = _oldest(found.listed, ours, count)
            found.names.append(name)
    return found


def _listed(files: Files, owner: int, blocks: Blocks) -> Listed:
    part = np.zeros(len(blocks), _LISTED)
    part["owner"], part["block"] = owner, blocks
    part["size"] = np.minimum(files.state.size - blocks * BLOCK_SIZE, BLOCK_SIZE)
    part["age"] = _used_us(files.state, blocks)
    if files.pinned:
        part["age"] |= _PINNED
    return part


def _oldest(some: Listed, more: Listed, count: int) -> Listed:
    both = np.concatenate((some, more))
    found: Listed = both[np.argsort(both["age"], kind="stable")[:count]]
    return found


def evict(objects: Objects, found: Survey, size: int, count_max: int | None = None) -> int:
    """Free `size` bytes, or as many as the first `count_max` blocks have; return their number.

    A block that is being filled, or was used since, stays; a later one is removed in its place.
    """
    freed = 0
    left = found.listed[:count_max]
    while freed < size and len(left):
        count = int(np.searchsorted(np.cumsum(left["size"]), size - freed)) + 1
        freed += _evict(objects, found.names, left[:count], found.newest_us)
        left = left[count:]
    return freed


def _evict(objects: Objects, names: list[str], listed: Listed, newest_us: int) -> int:
    owners = np.unique(listed["owner"]).tolist()
    going = [(names[own], np.sort(listed["block"][listed["owner"] == own])) for own in owners]
    if len(going) < 2:
        return sum(_evict_of(objects, *each, newest_us) for each in going)
    # Each thread waits for a sync; file systems combine concurrent syncs.
    with ThreadPoolExecutor(min(len(going), _SYNCS), "eviction") as pool:
        done = [pool.submit(_evict_of, objects, *each, newest_us) for each in going]
        return sum(each.result() for each in done)


def _evict_of(objects: Objects, name: str, blocks: Blocks, newest_us: int) -> int:
    with objects.opened(name) as files:
        if files is None:
            return 0
        held = files.allocated()
        freed = evict_blocks(files, blocks, newest_us)
        is_empty = files.size() == 0
    is_gone = is_empty and objects.remove_if_empty(name)
    return max(held, freed) if is_gone else freed


def evict_blocks(files: Files, blocks: Blocks, newest_us: int = int(~_PINNED)) -> int:
    """Remove the blocks that no process is filling; return the number of bytes freed.

    Blocks that were used after `newest_us` stay.
    """
    with _locked(files.state, blocks.tolist()) as ours:
        old = _used_us(files.state, np.array(ours, np.int64)) <= newest_us
        going = [block for block, is_old in zip(ours, old, strict=True) if is_old]
        going = [block for block in going if files.is_there(block)]
        _punch(files, going)
        return sum(map(files.state.size_of, going))


@contextlib.contextmanager
def _locked(state: StateFile, blocks: list[int]) -> Iterator[list[int]]:
    """Lock the blocks that no process is filling, and yield them."""
    ours: list[int] = []
    try:
        for block in blocks:
            if try_lock(state.fd, BLOCKS_AT + block):
                ours.append(block)
        yield ours
    finally:
        for block in ours:
            unlock(state.fd, BLOCKS_AT + block)


def _punch(files: Files, blocks: list[int]) -> None:
    """Make locked blocks absent, and holes."""
    state = files.state
    durable = [block for block in blocks if state.may_be_durable(block)]
    for block in durable:
        state.set_durable(block, False)
    if durable:
        os.fdatasync(state.fd)
    for block in blocks:
        state.set_absent(block)
    for block in blocks:
        punch_hole(files.data, block * BLOCK_SIZE, BLOCK_SIZE)


def _used_us(state: StateFile, blocks: Blocks) -> NDArray[np.uint64]:
    """Return when blocks were used; 0 for times in the future: the clock was set back since."""
    times = state.used(blocks) & ~_PINNED
    times[times > time.time_ns() // 1000 + _AHEAD_US] = 0
    return times


def punch_leaks(files: Files) -> None:
    """Free space that no block uses: of forgotten blocks, or half written by a killed process."""
    state = files.state
    there = state.flags(files.present())
    for begin, end in data_ranges(files.data, 0, state.size):
        first, last = begin // BLOCK_SIZE, (end - 1) // BLOCK_SIZE
        for block in (np.flatnonzero(~there[first : last + 1]) + first).tolist():
            with _locked(state, [block]) as ours:  # one by one: fills need not wait for all
                _punch(files, [each for each in ours if not files.is_there(each)])
