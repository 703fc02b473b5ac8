"""A cache against a small model: whatever happens to it, in whatever order.

The model knows which blocks were filled and not forgotten. Some of these may have been
evicted; no other block may be present, none may have other bytes, and while everything fits,
nothing is missing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ffrfs.cache.cached_object import CachedObject
from ffrfs.cache.directory import CacheDirectory
from ffrfs.cache.inventory import Inventory
from ffrfs.cache.memory import MemoryCache
from ffrfs.cache.state_file import BLOCK_SIZE
from tests.cache.blocks import check, crash, fill, held, in_child, settle, state_files

MIB = 1 << 20
LIMIT = 24 * MIB
COUNT = 9  # blocks of an object; the last one is short
SIZE = (COUNT - 1) * BLOCK_SIZE + 77
OBJECTS = st.integers(0, 3)
SOME = st.sets(st.integers(0, COUNT - 1), min_size=1, max_size=5)

Block = tuple[int, int]


def url(number: int) -> str:
    return f"s3://bucket/{number}.ffr"


class CacheModel(RuleBasedStateMachine):
    lasts = True
    cache: CacheDirectory | MemoryCache

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="ffrfs-cache-"))
        self.opened: dict[int, CachedObject] = {}
        self.filled: set[Block] = set()
        self.held_most = 0  # the most blocks that `filled` has had

    @initialize()
    def begin(self) -> None:
        self.cache = self.make()

    def make(self) -> CacheDirectory:
        return CacheDirectory(str(self.path / "cache"), LIMIT, self.fail)

    def fail(self, line: str) -> None:
        raise AssertionError(line)

    def object(self, number: int) -> CachedObject:
        if number not in self.opened:
            self.opened[number] = self.cache.open(url(number), "v1", SIZE)
        return self.opened[number]

    @rule(number=OBJECTS, blocks=SOME)
    def fill(self, number: int, blocks: set[int]) -> None:
        kept = self.object(number)
        for block in blocks:
            fill(kept, block)
            assert block in check(kept)
        self.filled |= {(number, block) for block in blocks}

    @rule(number=OBJECTS, blocks=SOME)
    def forget(self, number: int, blocks: set[int]) -> None:
        for block in blocks:
            self.object(number).forget(block)
            assert not self.object(number).is_present(block)
        self.filled -= {(number, block) for block in blocks}

    @rule(number=OBJECTS, first=st.integers(-1, COUNT), count=st.integers(0, 2 * COUNT))
    def touch(self, number: int, first: int, count: int) -> None:
        self.object(number).touch(first, count)

    @rule()
    def sync(self) -> None:
        for kept in self.opened.values():
            kept.sync()

    @rule(number=OBJECTS)
    def close(self, number: int) -> None:
        if number in self.opened:
            self.opened.pop(number).close()
            if not self.lasts:
                self.filled -= {(number, block) for block in range(COUNT)}

    @invariant()
    def what_is_there_is_right(self) -> None:
        there = {(n, block) for n, kept in self.opened.items() for block in check(kept)}
        assert there <= self.filled
        self.held_most = max(self.held_most, len(self.filled))
        if self.held_most * BLOCK_SIZE < LIMIT * 2 // 3 - MIB:
            assert there == {block for block in self.filled if block[0] in self.opened}

    def teardown(self) -> None:
        for kept in self.opened.values():
            kept.close()
        if hasattr(self, "cache"):
            self.cache.close()
        shutil.rmtree(self.path)


class DirectoryModel(CacheModel):
    def close_all(self) -> None:
        for kept in self.opened.values():
            kept.close()
        self.opened.clear()
        self.cache.close()

    @rule()
    def reopen(self) -> None:
        self.close_all()
        self.cache = self.make()

    @rule(number=OBJECTS, blocks=SOME, noise=st.binary(min_size=1, max_size=20))
    def crash(self, number: int, blocks: set[int], noise: bytes) -> None:
        """The machine stops while another process has filled blocks that it has not synced."""
        self.close_all()

        def work() -> None:
            cache = CacheDirectory(str(self.path / "cache"), LIMIT)
            kept = cache.open(url(number), "v1", SIZE)
            for block in blocks:
                kept.forget(block)
                fill(kept, block)

        in_child(work)
        self.filled |= {(number, block) for block in blocks}
        # The blocks that are present but not synced are lost.
        durable: set[Block] = set()
        for path, state in state_files(self.path / "cache"):
            label, _ = state.read_header(path.stem)
            it = next(n for n in range(4) if url(n) == label.url)
            durable |= {(it, block) for part in state.durable() for block in part}
        crash(self.path / "cache", noise)
        self.filled &= durable
        self.cache = self.make()
        settle(self.cache)  # blocks that are not present give their space back

    @rule(number=OBJECTS, blocks=SOME)
    def fill_elsewhere(self, number: int, blocks: set[int]) -> None:
        def work() -> None:
            cache = CacheDirectory(str(self.path / "cache"), LIMIT)
            kept = cache.open(url(number), "v1", SIZE)
            for block in blocks:
                fill(kept, block)

        settle(self.cache)
        in_child(work)
        self.filled |= {(number, block) for block in blocks}

    @rule(number=OBJECTS, pinned=st.booleans())
    def pin(self, number: int, pinned: bool) -> None:
        self.object(number)
        with contextlib.closing(Inventory(str(self.path / "cache"))) as inventory:
            (facts,) = inventory.find([url(number)])
            inventory.pin(facts.name, pinned)

    @rule(number=OBJECTS)
    def remove(self, number: int) -> None:
        self.object(number)
        with contextlib.closing(Inventory(str(self.path / "cache"))) as inventory:
            (facts,) = inventory.find([url(number)])
            inventory.remove(facts.name)
        self.filled -= {(number, block) for block in range(COUNT)}

    @invariant()
    def no_more_is_held(self) -> None:
        if hasattr(self, "cache"):
            assert held(self.path) <= LIMIT * 1.01


class MemoryModel(CacheModel):
    lasts = False

    def make(self) -> MemoryCache:
        return MemoryCache(LIMIT)

    @invariant()
    def no_more_is_held(self) -> None:
        taken = sum(os.fstat(kept.data_fd).st_blocks for kept in self.opened.values())
        assert taken * 512 <= LIMIT


# Not shrunk: a pass of eviction may begin at any time, so a second run may differ.
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
TestDirectory = DirectoryModel.TestCase
TestDirectory.settings = settings(
    max_examples=10, stateful_step_count=25, deadline=None, phases=_PHASES
)
TestMemory = MemoryModel.TestCase
TestMemory.settings = settings(
    max_examples=12, stateful_step_count=20, deadline=None, phases=_PHASES
)
