"""The tools of all origins to receive a range: threads, buffers, and the bytes so far.

Concurrency: any thread.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from ffrfs.errors import RemoteError
from ffrfs.remote.pin import Pin

_THREADS = 128  # for ranges, openings, and requests that are being given up
# Gets the next bytes, about PIECE_SIZE at most, in the thread that has received them; it must have
# used them when it returns. A thread that was given up may call it when the read has ended.
Take = Callable[[memoryview], None]
PIECE_SIZE = 1 << 20


class Rest:
    """The part of a range that has not come yet; another attempt begins with it."""

    def __init__(self, pin: Pin, offset: int, size: int, take: Take) -> None:
        """Raises RemoteError if the object has no such range."""
        if offset < 0 or size < 0 or offset + size > pin.size:
            raise RemoteError.at(pin.url.shown, f"has no bytes {offset} to {offset + size}")
        self.part = range(offset, offset + size)
        self.received = 0  # bytes, perhaps before came() takes them
        self._take = take

    def came(self, piece: memoryview) -> None:
        self._take(piece)
        self.part = self.part[len(piece) :]


class Buffers:
    """Reused buffers of PIECE_SIZE bytes: new memory costs more than receiving into it."""

    def __init__(self) -> None:
        self._free: list[bytearray] = []  # methods of a list are atomic

    @contextlib.contextmanager
    def one(self) -> Iterator[memoryview]:
        try:
            buffer = self._free.pop()
        except IndexError:
            buffer = bytearray(PIECE_SIZE)
        with memoryview(buffer) as view:
            yield view
        self._free.append(buffer)


buffers = Buffers()


@functools.cache
def threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, "ffrfs-ranges")


os.register_at_fork(after_in_child=threads.cache_clear)  # a child has none of the threads
