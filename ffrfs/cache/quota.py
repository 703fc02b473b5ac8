"""The limit of a cache: fills reserve their bytes, and old blocks are evicted in time.

When little room is left, a thread evicts some blocks at a time, so that fills seldom wait. The
cache stays below its limit by a margin, for blocks that are written while the files are counted.

Not here: which blocks go (eviction.py), the number itself (usage.py, or memory.py).
Concurrency: any thread.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from ffrfs.cache.files import Objects
from ffrfs.cache.state_file import BLOCK_SIZE
from ffrfs.errors import CacheError

SIZE_MIN = 16 * BLOCK_SIZE
_WRITERS = 2  # at a time, of about a block each
_BATCH_MAX = 512  # blocks that a pass evicts at most
_WAIT_S = 10.0
_STUCK_S = 3.0  # while passes free nothing: less than most timeouts of a read that waits
_PAUSE_S = 0.01


class Number(Protocol):
    """The number of bytes held, counted over all processes that share the cache."""

    def read(self) -> int: ...

    def add(self, size: int) -> int: ...

    def change(self, change: Callable[[int], int]) -> int: ...


class Quota:
    """The limit on the bytes that a directory, or a cache in memory, may hold.

    `alone`: a lock over all processes, for one eviction; it yields success. `lasts`: whether the
    blocks outlast a boot.
    """

    def __init__(  # noqa: PLR0913
        self,
        name: str,
        size_max: int,
        number: Number,
        objects: Objects,
        alone: Callable[[], AbstractContextManager[bool]],
        *,
        lasts: bool,
    ) -> None:
        """Set the limit. Raises CacheError if it is too small."""
        if size_max < SIZE_MIN:
            raise CacheError.at(
                name, f"a cache of {size_max:,} bytes is too small; it needs {SIZE_MIN:,} or more"
            )
        self.name, self.lasts = name, lasts
        self._number, self._objects, self._alone = number, objects, alone
        # The margin is for blocks that are reserved and not written yet, which no file contains.
        self._limit = size_max - max(size_max // 100, 4 * BLOCK_SIZE)
        # With so few writers, half of the smallest margin is left for other processes.
        self._writers = threading.Semaphore(_WRITERS)
        # Above the high mark, blocks are evicted in the background, down to the low mark.
        step = max(size_max * 4 // 100, 2 * BLOCK_SIZE)
        self._high = self._limit - step
        self._low = self._high - step
        self._one_pass = threading.Lock()  # `alone` does not exclude threads of this process
        self._mutex = threading.Lock()
        self._passed = threading.Condition(self._mutex)  # a pass has ended
        self._passes = 0
        self._helped = False  # whether the last pass freed bytes
        self._full_since = 0.0  # 0: the last fill had room, or got some
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def writing(self, size: int) -> Iterator[None]:
        """Count `size` more bytes, and let the caller write them, as one of a few at a time.

        It waits until old blocks have been evicted. Raises CacheError if there is no room.
        """
        with self._writers:
            self._reserve(size)
            yield

    def _reserve(self, size: int) -> None:
        held = self._number.add(size)
        if held <= self._limit:
            self._full_since = 0.0
            if held > self._high:
                with self._mutex:
                    self._start()
            return
        if not self._has_room():
            self._number.add(-size)
            raise CacheError.at(self.name, "is full, and no block can be removed now")

    def make_room(self) -> bool:
        """Evict old blocks from a full disk, whatever the count is; return False if none can go."""
        return self._pass(at_least=1)

    def begin(self) -> None:
        """Count the files in the background: after a crash the number may be wrong."""
        with self._mutex:
            self._start()

    def close(self) -> None:
        """Wait for running passes; only a fill would begin another one."""
        with self._mutex:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _has_room(self) -> bool:
        """Wait for passes until there is room; return False if that takes too long.

        A pass may free nothing, and the next one some: blocks were being filled, or just used.
        """
        with self._mutex:
            self._full_since = since = self._full_since or time.monotonic()
        while True:
            helped = self._wait_for_pass()
            if self._number.read() <= self._limit:
                self._full_since = 0.0
                return True
            if time.monotonic() - since >= (_WAIT_S if helped else _STUCK_S):
                return False
            if not helped:
                time.sleep(_PAUSE_S)

    def _wait_for_pass(self) -> bool:
        with self._passed:
            before = self._passes
            self._start()
            if self._thread is None:
                return False
            is_over = self._passed.wait_for(lambda: self._passes != before, _WAIT_S)
            return is_over and self._helped

    def _start(self) -> None:
        """Start a thread unless one runs; the caller holds the mutex."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="eviction", daemon=True)
            # A process without room for a thread goes on; the next fill tries again.
            with contextlib.suppress(RuntimeError):
                thread.start()
                self._thread = thread

    def _run(self) -> None:
        """Make passes while they help, and too much is held: the limit may have been lowered."""
        goes_on = True
        while goes_on:
            helped = goes_on = False
            try:
                helped = self._pass()
                goes_on = helped and self._number.read() > self._high
            except (OSError, RuntimeError):  # the next fill that finds no room reports it
                pass
            finally:
                with self._passed:
                    if not goes_on:
                        self._thread = None
                    self._passes += 1
                    self._helped = helped
                    self._passed.notify_all()

    def _pass(self, at_least: int = 0) -> bool:
        """Count the files, evict down to the low mark; return False if no block can be evicted."""
        with self._one_pass, self._alone() as is_alone:
            if not is_alone:
                return False
            before = self._number.read()
            held = count(self._objects)
            # Bytes reserved meanwhile may be counted twice, so the number may be too high.
            self._number.change(lambda now: held + max(now - before, 0))
            # Such bytes evict no block, because `wanted` ignores them.
            wanted = max(held - self._low, at_least)
            if wanted <= 0:
                return True
            from ffrfs.cache.eviction import evict, survey  # NumPy loads slowly

            freed = evict(self._objects, survey(self._objects, _BATCH_MAX), wanted)
            self._number.add(-freed)
            return freed > 0


def count(objects: Objects) -> int:
    """Return the number of bytes that the cache holds; free the remains of killed processes."""
    held = 0
    for name in objects.names():
        with objects.opened(name) as files:
            if files is None:
                continue
            size = files.size()
            if files.has_leaks(size):
                from ffrfs.cache.eviction import punch_leaks  # NumPy loads slowly

                punch_leaks(files)
            held += files.allocated()
        if size == 0:
            objects.remove_if_empty(name)
    return held
