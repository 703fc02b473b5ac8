"""Several processes on one directory: each block is fetched once, and all share one limit."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from ffrfs.cache.cached_object import CachedObject
from ffrfs.cache.directory import CacheDirectory
from ffrfs.cache.eviction import evict, survey
from ffrfs.cache.quota import count
from ffrfs.cache.state_file import BLOCK_SIZE
from ffrfs.errors import CacheError
from tests.cache.blocks import (
    URL,
    check,
    claim,
    content,
    fill,
    filled,
    finish,
    held,
    in_child,
    settle,
    start,
    state_files,
    store,
)
from tests.tiny_disk import run_on_tiny_disk

MIB = 1 << 20
WAIT_S = 60.0


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[CacheDirectory]:
    with contextlib.closing(CacheDirectory(str(tmp_path / "cache"), 32 * MIB)) as cache:
        yield cache


def test_two_processes_fill_each_block_once(tmp_path: Path) -> None:
    place, count = tmp_path / "cache", 60

    def work(name: str) -> None:
        cache = CacheDirectory(str(place), 128 * MIB)
        kept = cache.open(URL, "v1", count * BLOCK_SIZE)
        filled = []
        left = list(range(count))
        end = time.monotonic() + WAIT_S
        while left:
            assert time.monotonic() < end
            random.shuffle(left)
            for block in left[:4]:
                if kept.claim(block):
                    if kept.is_present(block):
                        kept.release(block)
                    else:
                        time.sleep(0.001)  # as long as a fetch may take
                        store(kept, block, content(block))
                        filled.append(block)
            left = [block for block in left if not kept.is_present(block)]
        check(kept)
        kept.close()
        cache.close()
        (tmp_path / name).write_text(json.dumps(filled))

    children = [start(lambda name=name: work(name)) for name in ("a", "b", "c")]
    for child in children:
        finish(child)
    by_each = [json.loads((tmp_path / name).read_text()) for name in ("a", "b", "c")]
    assert sorted(itertools.chain(*by_each)) == list(range(count))
    cache = CacheDirectory(str(place), 128 * MIB)
    kept = cache.open(URL, "v1", count * BLOCK_SIZE)
    assert check(kept) == set(range(count))
    kept.close()
    cache.close()


def test_a_killed_process_leaves_no_claim(tmp_path: Path) -> None:
    place = str(tmp_path / "cache")

    def work() -> None:
        cache = CacheDirectory(place, 64 * MIB)
        kept = cache.open(URL, "v1", 2 * BLOCK_SIZE)
        assert kept.claim(0)

    in_child(work)
    cache = CacheDirectory(place, 64 * MIB)
    kept = cache.open(URL, "v1", 2 * BLOCK_SIZE)
    fill(kept, 0)
    kept.close()
    cache.close()


@pytest.mark.long
def test_all_processes_share_one_limit(tmp_path: Path) -> None:
    """Three processes fill four times the limit, and read: every block that is present is right."""
    place = tmp_path / "cache"
    limit = 50 * MIB

    def work(seed: int) -> None:
        cache = CacheDirectory(str(place), limit)
        each = [cache.open(f"s3://b/{n}", "v1", 50 * BLOCK_SIZE + 9) for n in range(4)]
        order = [(n, block) for n in range(4) for block in range(51)]
        random.Random(seed).shuffle(order)
        for n, block in order:
            if not each[n].is_present(block) and each[n].claim(block):
                # On a busy machine eviction may not make room for some of them in time.
                with contextlib.suppress(CacheError):
                    store(each[n], block, content(block, 9 if block == 50 else BLOCK_SIZE))
            each[n].touch(block, 1)
        for kept in each:
            check(kept)
            kept.close()
        cache.close()

    children = {start(lambda seed=seed: work(seed)) for seed in range(3)}
    most = 0
    while children:
        most = max(most, held(place))
        for child in list(children):
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                finish(child)
                children.remove(child)
        time.sleep(0.002)
    assert most <= limit * 1.01
    CacheDirectory(str(place), limit).close()
    assert 40 * MIB <= held(place) <= limit


def test_a_block_that_is_being_filled_is_not_evicted(cache: CacheDirectory) -> None:
    kept = cache.open(URL, "v1", 80 * BLOCK_SIZE)
    fill(kept, 0)
    assert kept.claim(0)
    for block in range(1, 80):
        fill(kept, block)
    assert 0 in check(kept)
    kept.release(0)
    kept.close()


def test_a_newer_block_is_evicted_instead_of_a_claimed_one(cache: CacheDirectory) -> None:
    kept = filled(cache, 3)
    assert kept.claim(0)
    assert evict(cache.store, survey(cache.store, 3), 1) == BLOCK_SIZE
    assert check(kept) == {0, 2}
    kept.release(0)
    kept.close()


def test_a_block_used_since_the_survey_is_not_evicted(cache: CacheDirectory) -> None:
    kept = filled(cache, 3)
    found = survey(cache.store, 3)
    kept.touch(0, 1)
    assert evict(cache.store, found, 1) == BLOCK_SIZE
    assert check(kept) == {0, 2}
    kept.close()


def test_blocks_with_future_use_times_are_evicted_first(cache: CacheDirectory) -> None:
    """The clock was set back after these blocks were used."""
    kept = filled(cache, 4)
    kept._state.set_used(1, 1, (time.time_ns() + 3600 * 10**9) // 1000)
    kept._state.set_used(3, 1, (1 << 64) - 1)
    kept.touch(0, 1)
    assert evict(cache.store, survey(cache.store, 4), 2 * BLOCK_SIZE) == 2 * BLOCK_SIZE
    assert check(kept) == {0, 2}
    kept.close()


def test_eviction_resumes_after_a_thread_could_not_start(
    cache: CacheDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    settle(cache)
    kept = cache.open(URL, "v1", 80 * BLOCK_SIZE)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        patched.setattr("ffrfs.cache.quota._STUCK_S", 0.1)
        with pytest.raises(CacheError, match="is full"):
            for block in range(80):
                fill(kept, block)
    for block in range(80):
        fill(kept, block)
    assert 79 in check(kept)
    kept.close()


def test_passes_of_one_process_do_not_overlap(
    cache: CacheDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(cache)
    running = threading.Lock()

    def count(_: object) -> int:
        assert running.acquire(blocking=False)
        time.sleep(0.02)  # so that the other threads come meanwhile
        running.release()
        return 0

    monkeypatch.setattr("ffrfs.cache.quota.count", count)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: cache._quota.make_room(), range(4)))


@pytest.mark.promise("S64")
def test_a_lowered_limit_holds_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "cache"
    cache = CacheDirectory(str(place), 128 * MIB)
    kept = filled(cache, 80)
    kept.close()
    cache.close()
    monkeypatch.setattr("ffrfs.cache.quota._BATCH_MAX", 8)  # blocks that one pass evicts
    cache = CacheDirectory(str(place), 32 * MIB)
    settle(cache)
    assert 20 * MIB < held(place) <= 32 * MIB
    cache.close()


def test_small_objects_are_evicted_whole(tmp_path: Path) -> None:
    place = tmp_path / "cache"
    cache = CacheDirectory(str(place), 16 * MIB)
    for number in range(150):
        kept = cache.open(f"s3://b/{number}", "v1", 200_000)
        fill(kept, 0)
        kept.close()
        assert held(place) <= 16 * MIB * 1.01
    cache.close()
    assert 30 <= len(list(place.glob("??/*.state"))) <= 80


def test_only_as_many_small_objects_as_needed_are_evicted(
    cache: CacheDirectory, tmp_path: Path
) -> None:
    """Most of the disk space of a small object is not its block."""
    place = tmp_path / "cache"
    for number in range(60):
        kept = cache.open(f"s3://b/{number}", "v1", 300)
        fill(kept, 0)
        kept.close()
    settle(cache)
    before, found = held(place), survey(cache.store, 60)
    each = count(cache.store) // 60
    assert each > 2 * 4096
    freed = evict(cache.store, found, 10 * each)
    assert 10 * each <= freed <= 12 * each
    assert before - held(place) == freed
    # The oldest ones were removed.
    urls = {state.read_header(path.stem)[0].url for path, state in state_files(place)}
    assert urls == {f"s3://b/{number}" for number in range(freed // each, 60)}


def test_pinned_objects_are_evicted_last(cache: CacheDirectory, tmp_path: Path) -> None:
    pinned = cache.open("s3://b/pinned", "v1", 10 * BLOCK_SIZE)
    for block in range(10):
        fill(pinned, block)
    name = next((tmp_path / "cache").glob("??/*.state"))
    name.with_suffix(".pin").touch(0o600)
    other = filled(cache, 80)
    assert check(pinned) == set(range(10))
    assert 10 <= len(check(other)) <= 18
    more = cache.open("s3://b/more", "v1", 80 * BLOCK_SIZE)
    name.with_suffix(".pin").unlink()
    for block in range(80):
        fill(more, block)
    assert check(pinned) == set()
    for kept in (pinned, other, more):
        kept.close()


def begin(kept: CachedObject, block: int) -> None:
    """Write half of a block; nothing evicts it until it is whole or released."""
    claim(kept, block)
    kept.prepare(block, 1)
    kept.write(block * BLOCK_SIZE, memoryview(content(block, BLOCK_SIZE // 2)))


def test_a_full_cache_without_evictable_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ffrfs.cache.quota._STUCK_S", 0.1)
    cache = CacheDirectory(str(tmp_path / "cache"), 16 * MIB)
    kept = cache.open(URL, "v1", 80 * BLOCK_SIZE)
    with pytest.raises(CacheError, match="is full, and no block can be removed now"):
        for block in range(40):
            begin(kept, block)
    kept.close()
    cache.close()


def test_a_fill_that_failed_long_ago_does_not_shorten_a_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = CacheDirectory(str(tmp_path / "cache"), 16 * MIB)
    quota = cache._quota
    monkeypatch.setattr(quota, "_wait_for_pass", lambda: False)
    monkeypatch.setattr("ffrfs.cache.quota._STUCK_S", 0.0)
    cache._usage.add(16 * MIB)
    with pytest.raises(CacheError, match="is full"), quota.writing(1):
        pass
    cache._usage.add(-16 * MIB)
    with quota.writing(1):
        assert quota._full_since == 0
    cache.close()


def test_a_fill_waits_for_blocks_that_are_being_filled(tmp_path: Path) -> None:
    cache = CacheDirectory(str(tmp_path / "cache"), 16 * MIB)
    kept = cache.open(URL, "v1", 80 * BLOCK_SIZE)
    for block in range(24):  # with the state file they hold more than 12 MiB
        begin(kept, block)
    with ThreadPoolExecutor(2) as pool:
        fills = [pool.submit(fill, kept, block) for block in range(24, 27)]
        assert len(wait(fills, 0.5).not_done) == 3
        kept.release(0, 24)
        for each in fills:
            each.result(WAIT_S)
    assert check(kept) == {24, 25, 26}
    kept.close()
    cache.close()


FILL_A_TINY_DISK = """
import os, sys
from ffrfs.cache.directory import CacheDirectory
from ffrfs.cache.eviction import evict, survey
from ffrfs.errors import CacheError
from tests.cache.blocks import check, fill, held
from pathlib import Path

place = Path(sys.argv[1]) / "cache"
cache = CacheDirectory(str(place), 1 << 30)
objects = []
for number in range(12):
    objects.append(cache.open(f"s3://b/{number}", "v1", 200_000))
    fill(objects[-1], 0)
    assert objects[-1].is_present(0), number
there = [number for number, each in enumerate(objects) if check(each)]
print(there == list(range(12))[-len(there):], 2 <= len(there) <= 4)
with open(place.parent / "other", "wb", buffering=0) as other:
    try:
        while True:
            other.write(bytes(4096))
    except OSError:
        pass
    objects[0].forget(0)
    for each in objects[-5:]:
        assert each.claim(0)
    try:
        fill(objects[0], 0)
        print("filled")
    except CacheError as error:
        print(error)
try:
    cache.open("s3://b/new", "v1", 1)
except CacheError as error:
    print(str(error).partition(".state: ")[2])
print(sorted(each.suffix for each in place.glob("??/.*")))
"""


def test_a_full_disk(tmp_path: Path) -> None:
    """If the disk is full before the limit is reached, old blocks are evicted, or a fill fails."""
    lines = run_on_tiny_disk(tmp_path / "disk", FILL_A_TINY_DISK)
    assert lines == [
        "True True",
        "s3://b/0: cannot be cached: No space left on device",
        "No space left on device; choose another with --cache-dir or FFRFS_CACHE_DIR",
        "[]",
    ]
