"""Fills the caches of tests, and looks at their blocks.

The bytes of a block follow from its number, and no 8 of them are all zero, as in a hole.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from ffrfs.cache.cached_object import CachedObject
from ffrfs.cache.directory import CacheDirectory
from ffrfs.cache.memory import MemoryCache
from ffrfs.cache.state_file import BLOCK_SIZE, HEADER_SIZE, StateFile, parse_header

WAIT_S = 60.0
URL = "s3://bucket/a.ffr"


def content(block: int, size: int = BLOCK_SIZE, seed: int = 1) -> bytes:
    return (struct.pack("<II", seed, block + 1) * (BLOCK_SIZE // 8))[:size]


def block_size(kept: CachedObject, block: int) -> int:
    return min(BLOCK_SIZE, kept.size - block * BLOCK_SIZE)


def claim(kept: CachedObject, block: int) -> None:
    """Claim a block; a pass of eviction may have it for a moment."""
    end = time.monotonic() + WAIT_S
    while not kept.claim(block):
        assert time.monotonic() < end
        time.sleep(0.001)


def fill(kept: CachedObject, block: int, seed: int = 1) -> None:
    claim(kept, block)
    store(kept, block, content(block, block_size(kept, block), seed))


def store(kept: CachedObject, block: int, data: bytes) -> None:
    """Fill a block that the caller has claimed, and release it."""
    try:
        kept.prepare(block, 1)
        kept.write(block * BLOCK_SIZE, memoryview(data))
        kept.publish(block, 1)
    finally:
        kept.release(block)


def filled(cache: CacheDirectory | MemoryCache, count: int) -> CachedObject:
    """Open an object, and fill its first blocks."""
    kept = cache.open(URL, "v1", count * BLOCK_SIZE)
    for block in range(count):
        fill(kept, block)
    return kept


def present(kept: CachedObject) -> set[int]:
    return {n for n, there in enumerate(kept.present(0, kept.block_count)) if there}


def read(kept: CachedObject, block: int) -> bytes | None:
    """Return a block as a reader gets it: None if it is absent, or is evicted meanwhile."""
    state = StateFile(kept.state_fd, kept.size)
    number = state.number(block)
    data = os.pread(kept.data_fd, block_size(kept, block), block * BLOCK_SIZE)
    return data if number and state.number(block) == number else None


def check(kept: CachedObject, seed: int = 1) -> set[int]:
    """Check the bytes of every block that is present; return their numbers."""
    good = set()
    for block in present(kept):
        data = read(kept, block)
        if data is not None:
            assert data == content(block, block_size(kept, block), seed), block
            good.add(block)
    return good


def held(directory: Path) -> int:
    """Return the bytes that the files take on disk; some may be removed meanwhile."""
    taken = 0
    for each in [*directory.rglob("*")]:
        with contextlib.suppress(FileNotFoundError):
            info = each.lstat()
            taken += info.st_blocks * 512 if stat.S_ISREG(info.st_mode) else 0
    return taken


def state_files(directory: Path) -> Iterator[tuple[Path, StateFile]]:
    for path in directory.glob("??/*.state"):
        with open(path, "r+b", buffering=0) as file:
            size, _, _ = parse_header(file.read(HEADER_SIZE))
            yield path, StateFile(file.fileno(), size)


def crash(directory: Path, random_bytes: bytes) -> None:
    """Lose all that was not synced, as a crash does: `live`, and data that is not durable."""
    for path, state in state_files(directory):
        if not path.with_suffix(".data").exists():
            continue  # killed while it was being removed
        label, _ = state.read_header(path.stem)
        state.write_header(label, b"another boot ...")
        count = state.block_count
        noise = (random_bytes * (count // len(random_bytes) + 1))[:count]
        os.pwrite(state.fd, noise, HEADER_SIZE)
        durable = {block for part in state.durable() for block in part.tolist()}
        with open(path.with_suffix(".data"), "r+b", buffering=0) as data:
            for block in set(range(count)) - durable:
                os.pwrite(data.fileno(), noise[:1] * state.size_of(block), block * BLOCK_SIZE)


def count(place: Path, size_max: int) -> None:
    """Count the files of a cache, and wait for the end."""
    cache = CacheDirectory(str(place), size_max)
    settle(cache)
    cache.close()


def settle(cache: CacheDirectory) -> None:
    """Count the files, and wait: a child forked meanwhile would keep the locks of a pass."""
    cache.count()
    cache._quota.close()


def in_child(work: Callable[[], None]) -> None:
    """Run `work` in a process that ends as a killed one does: it tidies nothing up."""
    finish(start(work))


def start(work: Callable[[], None]) -> int:
    """Begin `work` in a process of its own; return its id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def finish(pid: int) -> None:
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
