"""A cache in memory, for a directory that cannot be used, or if nothing is to be kept.

It has the same files as a directory (state_file.py), but without names: readers see no
difference.

Concurrency: any thread.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator

from ffrfs.cache.cached_object import CachedObject
from ffrfs.cache.files import Files
from ffrfs.cache.quota import Quota
from ffrfs.cache.state_file import Label, StateFile, boot_id, check_size, object_name


class MemoryCache:
    """Holds at most `size_max` bytes of all objects. Raises CacheError if that is too small."""

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self._mutex = threading.Lock()
        self._opened: dict[str, tuple[StateFile, int]] = {}  # its state file and its data
        self._names = itertools.count(1)
        self._number = _Number()
        self._room = Quota("the cache in memory", size_max, self._number, self, _alone, lasts=False)

    def open(self, url: str, version: str, size: int, pin: str = "") -> CachedObject:
        """Open as CacheDirectory.open() does, but make a new object, which close() removes."""
        check_size(url, size)
        label = Label(object_name(url, version, size), url, pin)
        with contextlib.ExitStack() as failed:
            data = os.memfd_create("ffrfs-cache-data", os.MFD_CLOEXEC)
            failed.callback(os.close, data)
            fd = os.memfd_create("ffrfs-cache-state", os.MFD_CLOEXEC)
            failed.callback(os.close, fd)
            os.ftruncate(data, size)
            state = StateFile(fd, size)
            os.ftruncate(fd, state.file_size)
            state.write_header(label, boot_id())
            failed.pop_all()
        name = str(next(self._names))
        opened = CachedObject(url, state, data, self._room, lambda _: self._forget(name))
        with self._mutex:
            self._opened[name] = state, data
        return opened

    def usage(self) -> int:
        """Return the number of bytes that the cache holds."""
        return self._number.read()

    def close(self) -> None:
        """Do nothing: objects stay open."""

    def _forget(self, name: str) -> None:
        with self._mutex:
            del self._opened[name]

    # -- objects, for eviction

    def names(self) -> list[str]:
        with self._mutex:
            return list(self._opened)

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[Files | None]:
        with contextlib.ExitStack() as ends:
            with self._mutex:  # so that the object is not closed meanwhile
                files = None
                if name in self._opened:
                    state, data = self._opened[name]
                    own = StateFile(_reopen(state.fd, ends), state.size)
                    files = Files(own, _reopen(data, ends), pinned=False, is_current=True)
            yield files

    def remove_if_empty(self, name: str) -> bool:
        """Do nothing: closing the descriptors removes the object."""
        return False


def _alone() -> contextlib.nullcontext[bool]:
    return contextlib.nullcontext(True)  # no other process has the cache


class _Number:
    """The number of bytes held by this process alone."""

    def __init__(self) -> None:
        self._number = 0
        self._mutex = threading.Lock()

    def read(self) -> int:
        return self._number

    def add(self, size: int) -> int:
        return self.change(lambda before: before + size)

    def change(self, change: Callable[[int], int]) -> int:
        with self._mutex:
            self._number = max(change(self._number), 0)
            return self._number


def _reopen(fd: int, ends: contextlib.ExitStack) -> int:
    """Open a file separately, so that it has its own locks."""
    found = os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
    ends.callback(os.close, found)
    return found
