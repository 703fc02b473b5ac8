"""Objects in a directory and in memory: blocks come and go, and have the bytes that were filled."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs.cache.directory import CacheDirectory
from ffrfs.cache.memory import MemoryCache
from ffrfs.cache.quota import SIZE_MIN
from ffrfs.cache.state_file import BLOCK_SIZE, StateFile
from ffrfs.errors import CacheError
from tests.cache.blocks import (
    URL,
    check,
    content,
    count,
    crash,
    fill,
    filled,
    held,
    in_child,
    present,
    read,
    settle,
    store,
)
from tests.interpreter import python

MIB = 1 << 20


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(params=["directory", "memory"])
def cache(request: pytest.FixtureRequest, place: Path) -> Iterator[CacheDirectory | MemoryCache]:
    made = CacheDirectory(str(place), 32 * MIB) if request.param == "directory" else None
    cache = made or MemoryCache(32 * MIB)
    yield cache
    cache.close()


def test_a_block_whose_state_cannot_be_read_counts_as_absent(
    cache: CacheDirectory | MemoryCache,
) -> None:
    kept = cache.open(URL, "v1", BLOCK_SIZE)
    fill(kept, 0)
    state = kept._state.fd
    before = os.dup(state)
    unreadable = os.open(os.devnull, os.O_WRONLY)
    os.dup2(unreadable, state)
    assert not kept.is_present(0)
    assert kept.present(0, 1) == b"\0"
    os.dup2(before, state)
    os.close(before)
    os.close(unreadable)
    assert kept.is_present(0)
    kept.close()


def test_only_filled_blocks_are_present_with_their_bytes(
    cache: CacheDirectory | MemoryCache,
) -> None:
    kept = cache.open(URL, "v1", 3 * BLOCK_SIZE + 5)
    assert kept.block_count == 4
    assert present(kept) == set()
    for block in (3, 0, 2):
        fill(kept, block)
    assert check(kept) == {0, 2, 3}
    assert not kept.is_present(1)
    assert kept.present(1, 2) == bytes([0, 1])
    kept.close()


def test_an_empty_object(cache: CacheDirectory | MemoryCache) -> None:
    kept = cache.open(URL, "v1", 0)
    assert kept.block_count == 0
    with pytest.raises(CacheError, match="has no block 0"):
        kept.claim(0)
    kept.close()


def test_clients_can_only_read(cache: CacheDirectory | MemoryCache) -> None:
    kept = cache.open(URL, "v1", 100)
    for fd in (kept.data_fd, kept.state_fd):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.pwrite(fd, b"x", 0)
    kept.close()


def test_a_block_is_claimed_once(cache: CacheDirectory | MemoryCache) -> None:
    kept = cache.open(URL, "v1", 2 * BLOCK_SIZE)
    assert kept.claim(1)
    assert not kept.claim(1)
    assert kept.claim(0)
    kept.release(1)
    assert kept.claim(1)
    store(kept, 1, content(1))
    assert kept.claim(1)  # to fetch it again
    kept.close()


def test_blocks_that_are_not_claimed_cannot_be_written(cache: CacheDirectory | MemoryCache) -> None:
    kept = cache.open(URL, "v1", 3 * BLOCK_SIZE)
    assert kept.claim(0)
    kept.prepare(0, 1)
    piece = memoryview(content(0))
    for refused in (
        lambda: kept.prepare(0, 2),
        lambda: kept.write(1, piece),  # its last byte is in block 1
        lambda: kept.write(BLOCK_SIZE, piece),
        lambda: kept.publish(0, 2),
    ):
        with pytest.raises(CacheError, match="not claimed"):
            refused()
    assert present(kept) == set()
    kept.write(0, piece)
    kept.publish(0, 1)
    with pytest.raises(CacheError, match="not claimed"):
        kept.write(0, piece)
    assert check(kept) == {0}
    kept.close()


def test_a_file_that_is_cut_during_a_fill(place: Path) -> None:
    cache = CacheDirectory(str(place), 32 * MIB)
    kept = cache.open(URL, "v1", 3 * BLOCK_SIZE)
    assert kept.claim(0)
    kept.prepare(0, 1)
    kept.write(0, memoryview(content(0)))
    os.truncate(next(place.glob("??/*.data")), BLOCK_SIZE // 2)
    with pytest.raises(CacheError, match="was cut"):
        kept.publish(0, 1)
    kept.release(0)
    assert present(kept) == set()
    fill(kept, 0)
    assert check(kept) == {0}
    # Another fill notices first, and makes the file whole again, with zeros in place of the bytes.
    assert kept.claim(1)
    kept.prepare(1, 1)
    kept.write(BLOCK_SIZE, memoryview(content(1)))
    os.truncate(next(place.glob("??/*.data")), BLOCK_SIZE // 2)
    fill(kept, 2)
    with pytest.raises(CacheError, match="was cut"):
        kept.publish(1, 1)
    kept.release(1)
    fill(kept, 1)
    assert check(kept) == {1, 2}
    kept.close()
    cache.close()


def test_consecutive_fills_of_a_block_have_different_numbers(
    cache: CacheDirectory | MemoryCache,
) -> None:
    kept = cache.open(URL, "v1", 10)
    numbers = [0]
    for _ in range(258):
        fill(kept, 0)
        numbers.append(kept.present(0, 1)[0])
        kept.forget(0)
        assert not kept.is_present(0)
    assert all(a != b for a, b in itertools.pairwise(numbers))
    assert 0 not in numbers[1:]
    kept.close()


def test_the_oldest_blocks_are_evicted(cache: CacheDirectory | MemoryCache, place: Path) -> None:
    kept = cache.open(URL, "v1", 100 * BLOCK_SIZE)
    for block in range(100):
        fill(kept, block)
        kept.touch(0, 1)
        kept.touch(3, 2)
        assert kept.is_present(block)
        taken = held(place) if place.exists() else os.fstat(kept.data_fd).st_blocks * 512
        assert taken <= 32 * MIB * 1.01
    there = check(kept)
    assert there >= {0, 3, 4, *range(84, 100)}
    assert 20 <= len(there) <= 32
    kept.close()


def test_all_objects_share_one_limit(cache: CacheDirectory | MemoryCache) -> None:
    one = cache.open("s3://b/one", "v1", 40 * BLOCK_SIZE)
    two = cache.open("s3://b/two", "v1", 40 * BLOCK_SIZE)
    for block in range(20):
        fill(one, block)
    for block in range(20):
        fill(two, block)
    assert check(two) == set(range(20))
    assert 0 < len(check(one)) <= 8
    one.close()
    two.close()


def test_many_threads_fill(cache: CacheDirectory | MemoryCache) -> None:
    kept = cache.open(URL, "v1", 120 * BLOCK_SIZE)
    failures: list[Exception] = []

    def work(first: int) -> None:
        try:
            for block in range(first, 120, 4):
                fill(kept, block)
        except Exception as error:  # shown below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert 20 <= len(check(kept)) <= 32
    kept.close()


def test_closed_while_a_thread_fills(cache: CacheDirectory | MemoryCache) -> None:
    kept = cache.open(URL, "v1", 300 * BLOCK_SIZE)
    refused: list[str] = []

    def work() -> None:
        try:
            for block in itertools.cycle(range(300)):
                fill(kept, block)
        except CacheError as error:
            refused.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    while not any(kept.present(0, 300)):
        time.sleep(0.001)
    kept.close()
    kept.close()
    thread.join()
    assert refused == [f"{URL}: its cache is closed"]
    assert not kept.is_present(0)
    kept.touch(0, 1)
    kept.release(0)


def test_blocks_persist_until_the_version_or_size_changes(place: Path) -> None:
    cache = CacheDirectory(str(place), 64 * MIB)
    kept = cache.open(URL, "v1", 10 * BLOCK_SIZE + 1, "the pin")
    for block in (1, 5, 10):
        fill(kept, block)
    kept.close()
    cache.close()
    cache = CacheDirectory(str(place), 64 * MIB)
    for version, size, expected in (
        ("v1", 10 * BLOCK_SIZE + 1, {1, 5, 10}),
        ("v2", 10 * BLOCK_SIZE + 1, set()),
        ("v1", 10 * BLOCK_SIZE, set()),
    ):
        kept = cache.open(URL, version, size)
        assert check(kept) == expected
        kept.close()
    cache.close()


def test_a_cache_that_evicts_nothing_loads_no_numpy(place: Path) -> None:
    program = (
        "import sys\n"
        "from ffrfs.cache.directory import CacheDirectory\n"
        "cache = CacheDirectory(sys.argv[1], 32 << 20)\n"
        "kept = cache.open('s3://bucket/a.ffr', 'v1', 100)\n"
        "assert kept.claim(0)\n"
        "kept.prepare(0, 1)\n"
        "kept.write(0, memoryview(bytes(100)))\n"
        "kept.publish(0, 1)\n"
        "cache.count()\n"
        "cache._quota.close()  # once it is counted\n"
        "print('numpy' in sys.modules)\n"
    )
    for _ in range(2):  # the second process finds a block that the first one did not sync
        done = python("-c", program, place, check=True)
        assert done.stdout == "False\n"


def test_only_synced_blocks_survive_a_reboot(place: Path) -> None:
    def work() -> None:
        cache = CacheDirectory(str(place), 64 * MIB)
        kept = cache.open(URL, "v1", 20 * BLOCK_SIZE)
        for block in range(12):
            fill(kept, block)
        kept.sync()
        for block in (14, 15):
            fill(kept, block)
        for block in (3, 4):  # filled again, so not durable any more
            kept.forget(block)
            fill(kept, block)
        kept.forget(5)

    in_child(work)  # it ends without a sync
    crash(place, b"\x07\x00\x01")
    cache = CacheDirectory(str(place), 64 * MIB)
    kept = cache.open(URL, "v1", 20 * BLOCK_SIZE)
    assert check(kept) == set(range(12)) - {3, 4, 5}
    for block in range(20):
        fill(kept, block)
    assert check(kept) == set(range(20))
    kept.close()
    cache.close()


def test_a_durable_block_that_is_a_hole_is_absent(place: Path) -> None:
    cache = CacheDirectory(str(place), 64 * MIB)
    kept = filled(cache, 4)
    kept.close()
    data = next(place.glob("??/*.data"))
    with open(data, "r+b") as file:
        file.truncate(2 * BLOCK_SIZE + 4096)
        file.truncate(4 * BLOCK_SIZE)
    crash(place, b"\x01")
    kept = cache.open(URL, "v1", 4 * BLOCK_SIZE)
    # Block 2 is partly a hole, block 3 wholly; both would read as zeros.
    assert present(kept) == {0, 1}
    kept.close()
    cache.close()


def test_the_space_of_dropped_blocks_is_freed(place: Path) -> None:
    cache = CacheDirectory(str(place), 64 * MIB)
    kept = cache.open(URL, "v1", 40 * BLOCK_SIZE)
    settle(cache)  # otherwise its pass frees some of the space
    for block in range(20):
        fill(kept, block)
        if block % 2:
            kept.forget(block)
    assert kept.claim(39)  # about to be filled, so it is left alone
    kept.close()
    cache.close()
    assert held(place) >= 20 * MIB
    count(place, 64 * MIB)
    assert 10 * MIB <= held(place) <= 11 * MIB
    cache = CacheDirectory(str(place), 64 * MIB)
    assert cache.usage() <= 11 * MIB
    kept = cache.open(URL, "v1", 40 * BLOCK_SIZE)
    assert check(kept) == set(range(0, 20, 2))
    kept.close()
    cache.close()


def test_unused_objects_without_blocks_are_removed(place: Path) -> None:
    cache = CacheDirectory(str(place), 64 * MIB)
    kept = cache.open(URL, "v1", 100)
    count(place, 64 * MIB)
    assert len(list(place.glob("??/*"))) == 2
    kept.close()
    cache.close()
    count(place, 64 * MIB)
    assert list(place.glob("??/*")) == []


def test_a_reader_notices_that_a_block_was_removed(place: Path) -> None:
    cache = CacheDirectory(str(place), 64 * MIB)
    kept = cache.open(URL, "v1", BLOCK_SIZE)
    fill(kept, 0)
    state = StateFile(kept.state_fd, BLOCK_SIZE)
    before = state.number(0)
    kept.forget(0)
    assert read(kept, 0) is None
    fill(kept, 0, seed=2)
    assert state.number(0) not in (0, before)
    assert read(kept, 0) == content(0, seed=2)
    kept.close()
    cache.close()


def test_too_small_a_cache(place: Path) -> None:
    for make in (
        lambda: CacheDirectory(str(place), SIZE_MIN - 1),
        lambda: MemoryCache(SIZE_MIN - 1),
    ):
        with pytest.raises(CacheError, match="too small; it needs 16,777,216 or more"):
            make()


def test_too_large_an_object(cache: CacheDirectory | MemoryCache) -> None:
    for size in (-1, 1 << 62):
        with pytest.raises(CacheError, match="too many for one object of a cache"):
            cache.open(URL, "v1", size)
