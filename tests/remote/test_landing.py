"""A range on its way into the cache, also when its thread was given up, or its cache fails."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

import pytest

from ffrfs.cache.cached_object import CachedObject
from ffrfs.cache.memory import MemoryCache
from ffrfs.cache.state_file import BLOCK_SIZE, Label, StateFile, boot_id
from ffrfs.errors import CacheError, RemoteError
from ffrfs.remote.landing import Landing
from tests.cache.blocks import URL, WAIT_S, check, content, present

PIECE = 300_000


class Gate:
    """The quota of a cache; while it is shut, writes wait, as for a disk that hangs."""

    lasts = False

    def __init__(self) -> None:
        self.open, self.reached = threading.Event(), threading.Event()
        self.open.set()
        self.failure: CacheError | None = None

    @contextlib.contextmanager
    def writing(self, size: int) -> Iterator[None]:
        self.reached.set()
        assert self.open.wait(WAIT_S)
        if self.failure is not None:
            raise self.failure
        yield

    def make_room(self) -> bool:
        return False


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open.set()


@pytest.fixture
def kept(gate: Gate) -> Iterator[CachedObject]:
    size = 6 * BLOCK_SIZE - 7
    data, fd = os.memfd_create("data"), os.memfd_create("state")
    os.ftruncate(data, size)
    state = StateFile(fd, size)
    os.ftruncate(fd, state.file_size)
    state.write_header(Label("name", URL), boot_id())
    made = CachedObject(URL, state, data, gate)
    yield made
    made.close()


def sent(first: int, size: int) -> bytes:
    """Return the bytes that a server sends of the blocks from `first` on."""
    whole = b"".join(content(block) for block in range(first, first + size // BLOCK_SIZE + 1))
    return whole[:size]


def pieces(data: bytes) -> Iterator[memoryview]:
    """Yield `data` in pieces; none but the last one ends where a block does."""
    with memoryview(data) as view:
        for at in range(0, len(view), PIECE):
            yield view[at : at + PIECE]


def land(landing: Landing, data: bytes) -> None:
    for piece in pieces(data):
        landing.take(piece)


def claimed(kept: CachedObject, *blocks: int) -> list[int]:
    assert all(kept.claim(block) for block in blocks)
    return list(blocks)


def test_only_claimed_blocks_are_stored(kept: CachedObject) -> None:
    size = kept.size - BLOCK_SIZE
    landing = Landing(kept, claimed(kept, 1, 2, 5), 1, size)
    data = sent(1, size)
    *most, last = pieces(data)
    for piece in most:
        landing.take(piece)
    assert present(kept) == set()
    landing.take(last)
    assert check(kept) == {1, 2, 5}
    assert os.pread(kept.data_fd, 2 * BLOCK_SIZE, 3 * BLOCK_SIZE) == bytes(2 * BLOCK_SIZE)
    claimed(kept, 1, 2, 5)  # possible, as they were released


def test_nothing_is_stored_after_the_end(kept: CachedObject) -> None:
    landing = Landing(kept, claimed(kept, 0, 1), 0, 2 * BLOCK_SIZE)
    first, *others = pieces(sent(0, 2 * BLOCK_SIZE))
    landing.take(first)
    landing.end()
    claimed(kept, 0, 1)  # by another range
    for piece in others:
        with pytest.raises(RemoteError, match="given up"):
            landing.take(piece)
    landing.end()
    assert not kept.claim(0)  # the claims of the other range were not released
    assert present(kept) == set()
    assert os.pread(kept.data_fd, BLOCK_SIZE, PIECE) == bytes(BLOCK_SIZE)


def test_blocks_that_came_before_the_end_are_kept(kept: CachedObject) -> None:
    landing = Landing(kept, claimed(kept, 0, 1, 3, 4), 0, 5 * BLOCK_SIZE)
    land(landing, sent(0, 4 * BLOCK_SIZE + PIECE))
    landing.end()
    assert check(kept) == {0, 1, 3}
    claimed(kept, 0, 1, 3, 4)


def test_a_block_stays_claimed_until_its_write_ends(kept: CachedObject, gate: Gate) -> None:
    landing = Landing(kept, claimed(kept, 0, 1), 0, 2 * BLOCK_SIZE)
    gate.open.clear()
    failures: list[str] = []

    def receive() -> None:
        try:
            land(landing, sent(0, 2 * BLOCK_SIZE))
        except RemoteError as error:
            failures.append(str(error))

    thread = threading.Thread(target=receive)
    thread.start()
    assert gate.reached.wait(WAIT_S)
    landing.end()
    assert landing.is_storing
    assert not kept.claim(0)
    assert not kept.claim(1)
    gate.open.set()
    thread.join(WAIT_S)
    assert failures == ["the range was given up"]
    assert present(kept) == set()
    claimed(kept, 0, 1)


def test_a_failed_cache_is_replaced_by_another(kept: CachedObject, gate: Gate) -> None:
    landing = Landing(kept, claimed(kept, 2, 3), 2, 2 * BLOCK_SIZE)
    first, *_ = pieces(sent(2, BLOCK_SIZE))
    landing.take(first)
    gate.failure = CacheError("the disk has failed")
    with pytest.raises(RemoteError, match="the disk has failed"):
        land(landing, sent(2, 2 * BLOCK_SIZE))
    assert landing.failure is gate.failure
    other = MemoryCache(256 << 20).open(URL, "v1", kept.size)
    landing.move(other)
    claimed(kept, 2, 3)
    assert landing.failure is None
    land(landing, sent(2, 2 * BLOCK_SIZE))
    assert check(other) == {2, 3}
    assert present(kept) == set()
    other.close()
