"""Files on slow file systems (NFS, Lustre) as an origin, to be read through a cache.

A pin is size, inode and time of the last write. Every read compares them with those of the file,
before and after: a file that was replaced is another object, as in a bucket.

Not here: the cache (ffrfs.cache), other schemes (object_origin.py).
Concurrency: asyncio; threads wait for the file system, and a thread that hangs is abandoned.
"""

from __future__ import annotations

import asyncio
import functools
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ffrfs.errors import RemoteError, RemoteNotFoundError, RemoteTimeoutError
from ffrfs.remote.failures import changed
from ffrfs.remote.fetch_counters import FetchCounters
from ffrfs.remote.pin import Pin
from ffrfs.remote.receiving import Rest, Take, buffers
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import RemoteUrl

T = TypeVar("T")

_NAMES_MAX = 100_000
_THREADS = 32


class LocalOrigin:
    """The Origin for file://."""

    def __init__(self, settings: RemoteSettings, counters: FetchCounters) -> None:
        self._settings = settings
        self._counters = counters

    async def pin(self, url: RemoteUrl) -> Pin:
        return await self._in_thread(url, lambda: _pin(url))

    async def read(self, pin: Pin, offset: int, size: int, take: Take) -> None:
        rest = Rest(pin, offset, size, take)
        await self._in_thread(pin.url, lambda: _read(pin, rest))
        self._counters.add("remote_bytes", size)

    async def list(self, url: RemoteUrl) -> list[str]:
        names = await self._in_thread(url, lambda: _names(url))
        return [url.child(name).text for name in sorted(names, key=os.fsencode)]

    async def _in_thread(self, url: RemoteUrl, call: Callable[[], T]) -> T:
        self._counters.add("remote_requests")
        seconds = self._settings.timeout_s
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.get_running_loop().run_in_executor(_pool(), call)
        except RemoteError:
            raise
        except TimeoutError:
            why = f"the file system has not answered for {seconds:g} s"
            raise RemoteTimeoutError.at(url.shown, why) from None
        except FileNotFoundError:
            raise RemoteNotFoundError.at(url.shown, "there is no such file") from None
        except OSError as error:
            raise RemoteError.at(url.shown, error.strerror or type(error).__name__) from None


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, "ffrfs-files")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of the threads


def _pin(url: RemoteUrl) -> Pin:
    fd = _open(url)
    try:
        return _pin_of(url, fd)
    finally:
        os.close(fd)


def _read(pin: Pin, rest: Rest) -> None:
    # The file is opened for each read, so that its replacement under the same name is noticed.
    try:
        fd = _open(pin.url)
    except FileNotFoundError:
        raise changed(pin.url) from None
    try:
        with buffers.one() as buffer:
            while rest.part:
                piece = buffer[: len(rest.part)]
                _expect(pin, fd)
                _fill(pin, fd, rest.part.start, piece)
                _expect(pin, fd)
                rest.came(piece)
    finally:
        os.close(fd)


def _fill(pin: Pin, fd: int, offset: int, piece: memoryview) -> None:
    done = 0
    while done < len(piece):
        count = os.preadv(fd, [piece[done:]], offset + done)
        if count == 0:
            raise changed(pin.url)
        done += count


def _expect(pin: Pin, fd: int) -> None:
    if _pin_of(pin.url, fd) != pin:
        raise changed(pin.url)


def _open(url: RemoteUrl) -> int:
    return os.open(url.key, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)


def _pin_of(url: RemoteUrl, fd: int) -> Pin:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise RemoteError.at(url.shown, "not a regular file")
    identity = f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"
    return Pin(url, status.st_size, identity, None, status.st_mtime_ns)


def _names(url: RemoteUrl) -> list[str]:
    with os.scandir(url.key) as entries:
        found: list[str] = []
        for entry in entries:
            if len(found) == _NAMES_MAX:
                raise RemoteError.at(url.shown, f"has more than {_NAMES_MAX:,} files")
            if not _is_folder(entry):
                found.append(entry.name)
    return found


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself, say: then opening it reports the error
        return False
