"""One open object of a cache: blocks are claimed, filled and forgotten.

A fill is claim(), prepare(), write() for each part of the bytes, and publish(). The order of
writes makes a crash at any point harmless: first the data, then `live`; `durable` follows when
the data has been synced. Before the data of a durable block is overwritten or punched out,
`durable` is cleared and synced. So `live` is right as long as the machine runs, whichever
process is killed, and `durable` is right after a boot.

Not here: how much is kept (quota.py), the choice of blocks to evict (eviction.py), files and
their names (directory.py).

Concurrency: any thread, each block one at a time. claim(), is_present(), release(), forget()
and touch() do not wait; prepare(), write(), publish() and sync() wait for the disk, and for room.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from ffrfs.cache.locks import try_lock, unlock
from ffrfs.cache.sparse import is_full, punch_hole
from ffrfs.cache.state_file import BLOCK_SIZE, BLOCKS_AT, StateFile
from ffrfs.errors import CacheError, describe

if TYPE_CHECKING:
    from ffrfs.cache.quota import Quota

_SYNC_BLOCKS = 64
_SYNC_S = 5.0
# The most unsynced blocks that are taken over from killed processes; after a crash of the machine
# the others must be fetched again.
_UNSYNCED_MAX = 4096


class CachedObject:
    """An object. `data_fd`, `state_fd`: read-only, for clients; close() closes them."""

    def __init__(
        self,
        name: str,
        state: StateFile,
        data: int,
        room: Quota,
        on_close: Callable[[CachedObject], None] = lambda _: None,
    ) -> None:
        """Take ownership of both descriptors, also on failure. `name` is for messages."""
        self.name = name
        self._state, self._data = state, data
        self._room, self._on_close = room, on_close
        self._mutex = threading.Lock()  # guards all below; never held while waiting for a disk
        self._claimed: set[int] = set()
        self._cut: set[int] = set()  # claimed blocks that have lost bytes with the file's end
        self._unsynced: list[tuple[int, int]] = []  # (block, number)
        self._unsynced_since = 0.0
        self._syncing = False
        self._users = 1  # the object itself counts as a user until close()
        self._is_closed = False
        # Held while the file's length is compared, and until the result is noted.
        self._length = threading.Lock()
        with contextlib.ExitStack() as failed:
            failed.callback(os.close, state.fd)
            failed.callback(os.close, data)
            # The file is opened again, because a duplicate would be writable.
            self.data_fd = _reopen(data)
            failed.callback(os.close, self.data_fd)
            self.state_fd = _reopen(state.fd)
            failed.callback(os.close, self.state_fd)
            if room.lasts:  # a process that was killed may have left unsynced blocks
                self._unsynced += islice(state.unsynced(), _UNSYNCED_MAX)
            failed.pop_all()

    @property
    def size(self) -> int:
        return self._state.size

    @property
    def block_count(self) -> int:
        return self._state.block_count

    def is_present(self, block: int) -> bool:
        """Return whether the block is known to be present. If not, storing it shows the reason."""
        with contextlib.suppress(OSError):
            return not self._is_closed and self._state.number(block) != 0
        return False

    def present(self, first: int, count: int) -> bytes:
        """Return a byte for each block, 0 if is_present() would return False."""
        with contextlib.suppress(CacheError), self._using():  # a thread may close it meanwhile
            return self._state.numbers(first, count)
        return bytes(count)

    def claim(self, block: int) -> bool:
        """Lock a block to fetch it. Return False if another thread or process has it locked.

        The block may be present by now. publish() or release() unlock it. Raises CacheError.
        """
        if not 0 <= block < self.block_count:
            raise CacheError.at(self.name, f"has no block {block:,} of {self.block_count:,}")
        with self._mutex:
            if self._is_closed:
                raise self._closed()
            if block in self._claimed or not try_lock(self._state.fd, BLOCKS_AT + block):
                return False
            self._claimed.add(block)
            return True

    def release(self, first: int, count: int = 1) -> None:
        with self._mutex:
            ours = self._claimed.intersection(range(first, first + count))
            self._claimed -= ours
            if not self._users or not ours:  # unlocking 0 bytes would unlock all bytes behind it
                return
            if len(ours) == count:
                unlock(self._state.fd, BLOCKS_AT + first, count)
            else:
                for block in ours:
                    unlock(self._state.fd, BLOCKS_AT + block)

    def prepare(self, first: int, count: int) -> None:
        """Let claimed blocks be written from now on. Raises CacheError."""
        with self._using(first, count):
            self._check_names()
            with self._length:
                self._check_length()
                self._cut.difference_update(range(first, first + count))
            self._make_volatile(first, count)

    def write(self, offset: int, data: memoryview) -> None:
        """Write bytes of prepared blocks; wait for room. Raises CacheError."""
        first = offset // BLOCK_SIZE
        count = (offset + len(data) - 1) // BLOCK_SIZE - first + 1
        with self._using(first, count), self._room.writing(len(data)):
            with self._length:  # behind a cut, a write would turn blocks before it into zeros
                self._check_whole(first, count)
            self._write(offset, data)

    def publish(self, first: int, count: int, *, may_sync: bool = True) -> None:
        """Mark blocks as present whose bytes were all written, and release them.

        `may_sync`: the caller can wait for the disk. Raises CacheError if they were lost.
        """
        # Each step is taken once for all blocks: a system call costs as much as a part of a copy,
        # as each releases the interpreter's lock, and waits to get it back.
        with self._using(first, count):
            with self._length:
                self._check_whole(first, count)
                self._state.set_used(first, count, now_us())
                numbers = self._state.set_present(first, count)
            self._note(first, numbers)
        self.release(first, count)
        if may_sync:
            self._sync_if_due()

    def forget(self, block: int) -> None:
        """Mark the block as absent, because its bytes are wrong."""
        with self._using():
            with self._length:
                self._check_length()
            self._state.withdraw(block)

    def touch(self, first: int, count: int) -> None:
        """Note that these blocks were read, so that other blocks are evicted before them."""
        count = min(count, self.block_count - first)
        if first < 0 or count <= 0:
            return
        # A failure is ignored: the reader has its bytes anyway.
        with contextlib.suppress(OSError), self._using():
            self._state.set_used(first, count, now_us())

    def sync(self) -> None:
        """Sync the blocks filled so far, so that they survive a crash of the machine."""
        with self._mutex:
            if self._syncing or not self._unsynced:
                return
            self._syncing = True
            filled, self._unsynced = self._unsynced, []
        left: list[tuple[int, int]] = []
        try:
            with self._using():
                os.fdatasync(self._data)
                left = [pair for pair in filled if not self._make_durable(*pair)]
        finally:
            with self._mutex:
                self._syncing = False
                self._unsynced += left[:_SYNC_BLOCKS]
                self._unsynced_since = time.monotonic()

    def close(self) -> None:
        """Sync, and release all claims; calls that are running end first."""
        if self._is_closed:
            return
        with contextlib.suppress(OSError):
            self.sync()
        with self._mutex:
            if self._is_closed:
                return
            self._is_closed = True
            os.close(self.data_fd)
            os.close(self.state_fd)
        self._on_close(self)
        self._end_use()

    @contextlib.contextmanager
    def _using(self, first: int = 0, claimed: int = 0) -> Iterator[None]:
        """Keep the descriptors open; raise OSErrors as CacheError of this object.

        `claimed`: the number of blocks from `first` on that the caller must have claimed.
        """
        with self._mutex:
            if self._is_closed:
                raise self._closed()
            if not self._claimed.issuperset(range(first, first + claimed)):
                raise CacheError.at(self.name, f"block {first:,} or a later one is not claimed")
            self._users += 1
        try:
            yield
        except CacheError:
            raise
        except OSError as error:
            raise CacheError.at(self.name, f"cannot be cached: {describe(error)}") from error
        finally:
            self._end_use()

    def _end_use(self) -> None:
        with self._mutex:
            self._users -= 1
            if self._users == 0:
                self._claimed.clear()
                os.close(self._data)
                os.close(self._state.fd)

    def _closed(self) -> CacheError:
        return CacheError.at(self.name, "its cache is closed")

    def _check_names(self) -> None:
        """Refuse files without a name: they could grow without limit, as nothing counts them."""
        if self._room.lasts and not (
            os.fstat(self._state.fd).st_nlink and os.fstat(self._data).st_nlink
        ):
            raise CacheError.at(self.name, "its files in the cache directory were removed")

    def _check_length(self) -> bool:
        """Mark all blocks as absent if the data file was truncated, before it grows by zeros."""
        if os.fstat(self._data).st_size >= self.size:
            return True
        with self._mutex:
            self._cut |= self._claimed
        self._state.set_absent(0, self.block_count)
        os.ftruncate(self._data, self.size)
        return False

    def _check_whole(self, first: int, count: int) -> None:
        if not self._check_length() or not self._cut.isdisjoint(range(first, first + count)):
            raise CacheError.at(self.name, "its file in the cache directory was cut")

    def _make_volatile(self, first: int, count: int) -> None:
        """Clear `durable` before the data of the blocks is overwritten."""
        if self._room.lasts and self._state.may_be_durable(first, count):
            self._state.set_durable(first, False, count)
            os.fdatasync(self._state.fd)

    def _write(self, offset: int, data: memoryview) -> None:
        while True:
            try:
                done = 0
                while done < len(data):
                    done += os.pwrite(self._data, data[done:], offset + done)
                return
            except OSError as error:
                with contextlib.suppress(OSError):
                    punch_hole(self._data, offset, len(data))
                if not is_full(error) or not self._room.make_room():
                    raise

    def _note(self, first: int, numbers: bytes) -> None:
        if self._room.lasts:
            with self._mutex:
                self._unsynced_since = self._unsynced_since or time.monotonic()
                self._unsynced += enumerate(numbers, first)

    def _make_durable(self, block: int, number: int) -> bool:
        """Mark a synced block as durable; return False if the block is locked just now."""
        if not self.claim(block):
            return False
        try:
            # With another number it was evicted, and perhaps filled again, but not synced.
            if self._state.number(block) == number:
                self._state.set_durable(block, True)
        finally:
            self.release(block)
        return True

    def _sync_if_due(self) -> None:
        with self._mutex:
            age = time.monotonic() - self._unsynced_since
            if len(self._unsynced) < _SYNC_BLOCKS and age < _SYNC_S:
                return
        # The blocks are filled. If the sync fails, they stay volatile, because the kernel may take
        # their pages for clean, and a later sync would succeed. A crash costs another fetch.
        with contextlib.suppress(CacheError):
            self.sync()


def now_us() -> int:
    return time.time_ns() // 1000


def _reopen(fd: int) -> int:
    return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
