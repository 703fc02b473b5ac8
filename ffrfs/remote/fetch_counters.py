"""The counters of a fetcher, in shared memory that its parent can read at any time.

The layout is that of native/stats/counter_page.h. The page belongs to the parent, so that the
counts go on when another fetcher takes over. The next daemon of a mount copies it, as the fetcher
before may not have ended yet.

Concurrency: the fetcher's loop alone writes; a reader may see some counts newer than others.
"""

from __future__ import annotations

import mmap
import struct

PAGE_SIZE = 64 << 10
_MAGIC = b"ffrfscnt"
_HEADER = struct.Struct("<8sQ")
_ROW = struct.Struct("<32sQ")
_VALUE = struct.Struct("<Q")

# ffrfs/mount/daemon/statistics.py shows them. A new one goes to the end: the page may be that of a
# daemon which began before an upgrade.
NAMES = (
    "remote_bytes",  # bytes fetched
    "remote_requests",
    "remote_retries",
    "remote_throttled",  # retries after 429, 503 or SlowDown
    "remote_errors",  # blocks that could not be fetched
    "remote_blocks_hit",  # blocks read that were not fetched for the read
    "remote_blocks_fetched",
    "remote_blocks_again",  # blocks refetched because a checksum did not match
    "remote_objects",  # objects open now
    "remote_ranges",  # ranges in flight now
    "remote_starts",  # starts of fetchers
    "remote_in_memory",  # 1: the cache directory cannot be used
    "remote_moved",  # objects whose blocks are in memory, because another process locked them
    "remote_changed",  # open objects that were replaced at their origin, and are not there again
    "remote_object_bytes",  # total size of the objects that are open now
    "remote_fill_left",  # blocks that `ffrfs prefetch --all` has not fetched yet
    "remote_cache_bytes",  # bytes in the cache, also those of other processes
    "remote_cache_limit_bytes",
    "remote_filling",  # 1: remote_fill_left has been counted
    "remote_fill_given_up",  # blocks of remote_fill_left that are not tried any more
    "remote_fills",  # how often `ffrfs prefetch --all` has begun, and counted what is left
)
# These are present values, not counts: the next fetcher begins with zeros.
_OF_NOW = {
    "remote_ranges",
    "remote_in_memory",
    "remote_object_bytes",
    "remote_fill_left",
    "remote_filling",
    "remote_fill_given_up",
}


class FetchCounters:
    """Counters by name, on a page of shared memory."""

    def __init__(self, page_fd: int | None = None) -> None:
        """`page_fd` has PAGE_SIZE bytes and stays the caller's; None: memory of this process."""
        self._page = mmap.mmap(-1 if page_fd is None else page_fd, PAGE_SIZE)
        self._places: dict[str, int] = {}
        place = _HEADER.size
        begun = self._page[: len(_MAGIC)] == _MAGIC
        for name in NAMES:
            if not begun:
                _ROW.pack_into(self._page, place, name.encode(), 1)
            self._places[name] = place + _ROW.size
            place += _ROW.size + _VALUE.size
        _HEADER.pack_into(self._page, 0, _MAGIC, place)

    def go_on_from(self, page_fd: int) -> None:
        """Take the counts of another page."""
        before = FetchCounters(page_fd)
        for name in set(NAMES) - _OF_NOW:
            self.set(name, before[name])

    def add(self, name: str, number: int = 1) -> None:
        self.set(name, self[name] + number)

    def set(self, name: str, number: int) -> None:
        _VALUE.pack_into(self._page, self._places[name], number)

    def __getitem__(self, name: str) -> int:
        value: int = _VALUE.unpack_from(self._page, self._places[name])[0]
        return value

    def rows(self) -> dict[str, list[int]]:
        """Return all counters, as ffrfs/mount/engines/counter_page.py gives those of a worker."""
        return {name: [self[name]] for name in NAMES}
