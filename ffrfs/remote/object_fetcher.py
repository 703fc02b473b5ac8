"""The only process that talks to servers: `python -m ffrfs.remote.object_fetcher HUB START PAGE`.

The arguments are numbers of inherited descriptors: the hub, a socket over which new links come;
a pipe with the settings (start.py); and the page of counters. The fetcher ends when all processes
have closed the other end of the hub. It finds credentials where the tools of the clouds find them,
and sends them only to the cloud.

Messages for users go to stderr, one per line, with a priority, as a worker's do.

Not here: starting it (process.py), one client (link.py), the order of fetching (schedule.py).
Concurrency: one asyncio loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from ffrfs.errors import OptionError, RemoteDeniedError, RemoteError, describe
from ffrfs.printable import printable, shown_name
from ffrfs.remote.fetch_counters import FetchCounters
from ffrfs.remote.fetched_object import FetchedObject
from ffrfs.remote.filling import Filling
from ffrfs.remote.link import Link
from ffrfs.remote.named_store import admit, settings_for
from ffrfs.remote.offline_origin import keep_listing
from ffrfs.remote.origin import Origin, origin_for
from ffrfs.remote.pace import memory_cache_size
from ffrfs.remote.pin import Pin
from ffrfs.remote.schedule import Schedule
from ffrfs.remote.settings import RemoteSettings, default_cache_dir
from ffrfs.remote.start import Start
from ffrfs.remote.url import RemoteUrl, parse_url

if TYPE_CHECKING:  # see _preload()
    from ffrfs.cache.cached_object import CachedObject
    from ffrfs.cache.directory import CacheDirectory
    from ffrfs.cache.memory import MemoryCache

T = TypeVar("T")
Identity = tuple[str, str, int, str]

_DATA_SIZE_MAX = 2 << 30
_PR_SET_DUMPABLE = 4
_OPENING_MAX = 64  # requests at a time
_START_SIZE_MAX = 1 << 24
_HELLO_SIZE = 16
_SYNC_INTERVAL_S = 5.0
_LINKS_AT_A_TIME = 16

log = logging.getLogger("ffrfs.remote.object_fetcher")


class ObjectFetcher:
    """The open objects, and the links that have opened them."""

    def __init__(self, start: Start, counters: FetchCounters) -> None:
        self._start, self._settings, self._counters = start, start.settings, counters
        self._loop = asyncio.get_running_loop()
        self.schedule = Schedule(counters, self, start)
        self._filling = Filling(self.schedule, counters)
        self._links: set[Link] = set()
        self._objects: dict[Pin, FetchedObject] = {}
        self._cache_lock = threading.Lock()
        self._cache: CacheDirectory | MemoryCache | None = None  # None: not opened yet
        self._has_failed = False  # whether the cache directory has failed
        self._has_warned = False  # that a server does not tell versions of objects apart
        self._opening = asyncio.Semaphore(_OPENING_MAX)
        counters.add("remote_starts")
        for name in ("remote_in_memory", "remote_objects", "remote_object_bytes"):
            counters.set(name, 0)  # the fetcher before this one may have left a value

    def welcome(self, connection: socket.socket) -> None:
        self._links.add(Link(connection, self))

    def fill(self) -> None:
        """Fetch all blocks of the open objects into the cache, and of objects opened later."""
        self._filling.start(self._objects.values())

    # For links.

    def ended(self, link: Link) -> None:
        self._links.discard(link)

    async def open(self, url_text: str, pin_text: str, link: Link) -> FetchedObject:
        url = self._parse(url_text)
        async with self._opening:
            origin = origin_for(url, self._settings, self._counters)
            pin = Pin.from_text(pin_text, url) if pin_text else await self._pin(origin, url)
        target = self._objects.get(pin)
        if target is None or target.broken:
            made = FetchedObject(pin, origin, await self._opened(pin, bool(pin_text)))
            target = self._objects.get(pin)  # another link may have been faster
            if target is None or target.broken:
                if target is None:
                    self._count_object(pin, 1)
                target = self._objects[pin] = made
            else:
                self._close(made.close)
        target.followers.append(link)
        if len(target.followers) == 1:
            self._filling.follow(target)
        return target

    def _parse(self, url_text: str) -> RemoteUrl:
        """Return the URL. Raises OptionError; RemoteDeniedError if the client may not open it."""
        if self._start.roots is None:  # a mount opens only what its daemon names
            admit(url_text)
        url = parse_url(self._start.whole(url_text))
        if not self._start.allows(url):
            raise RemoteDeniedError.at(url.shown, "it is not among the packs of this mount")
        return url

    async def _pin(self, origin: Origin, url: RemoteUrl) -> Pin:
        self._loop.call_soon(_preload)  # once the request is under way
        begin = self._loop.time()
        pin = await origin.pin(url)
        self.schedule.pace.answered(self._loop.time() - begin)
        return pin

    def _count_object(self, pin: Pin, number: int) -> None:
        self._counters.add("remote_objects", number)
        self._counters.add("remote_object_bytes", number * pin.size)

    def leave(self, target: FetchedObject, link: Link) -> None:
        target.followers.remove(link)
        self.close_if_idle(target)

    async def list(self, url_text: str) -> list[str]:
        url = self._parse(url_text)
        if not url.is_directory:
            raise OptionError(f"{url.shown}: the URL of a directory ends in /")
        urls = await origin_for(url, self._settings, self._counters).list(url)
        await self._loop.run_in_executor(None, keep_listing, url, urls, self._settings)
        is_whole = self._start.whole(url_text) == url_text  # else the client knows no secret part
        return urls if is_whole else [shown_name(one) for one in urls]

    # The cache.

    @cached_property
    def _memory(self) -> MemoryCache:
        from ffrfs.cache.memory import MemoryCache

        return MemoryCache(memory_cache_size(self._start.flight_size))

    @cached_property
    def _directory(self) -> CacheDirectory:
        from ffrfs.cache.directory import CacheDirectory

        settings = self._settings
        path = settings.cache_dir or default_cache_dir()
        shared = settings.cache_shared
        directory = CacheDirectory(path, settings.cache_size, log.warning, shared=shared)
        directory.count()
        return directory

    async def _opened(self, pin: Pin, is_in_use: bool) -> CachedObject:
        def open_measured() -> CachedObject:
            cached = self._open_cached(pin, is_in_use)
            self._measure()
            return cached

        opening = self._in_thread(open_measured)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:  # the thread opens it nevertheless
            opening.add_done_callback(lambda _: self._close(lambda: _close_opened(opening)))
            raise

    def _open_cached(self, pin: Pin, is_in_use: bool) -> CachedObject:
        """Open the object's cache, in a thread: disks are slow. `is_in_use`: a client has it open.

        Raises CacheError if the user named a cache directory and it is unusable from the start.
        """
        from ffrfs.cache.state_file import check_size

        check_size(pin.url.shown, pin.size)  # so its error is not taken for the directory's
        identity = _identity(pin, self._settings)
        with self._cache_lock:
            if not pin.is_identified:
                self._warn_of(pin)
            elif self._settings.cache_mode == "full" and not self._has_failed:
                try:
                    self._cache = self._directory  # raises if the directory cannot be used at all
                    return self._cache.open(*identity)
                except OSError as error:
                    if not is_in_use and self._cache is None and self._settings.cache_dir:
                        raise
                    if _number_of(error) == errno.EFBIG:  # smaller objects fit
                        self._warn_of_size(pin)
                        return self._memory.open(*identity)
                    if _number_of(error) in (errno.EMFILE, errno.ENFILE):
                        raise  # it may pass, and would hit a cache in memory, too
                    self._give_up_directory(error)
            return self._memory.open(*identity)

    def _warn_of(self, pin: Pin) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s: the server sends neither ETag nor Last-Modified, so a new object is not told "
                "from an old one; blocks are cached in memory alone, and fetched again each time",
                pin.url.shown,
            )

    def _warn_of_size(self, pin: Pin) -> None:
        log.warning(
            "%s: has %s bytes, too many for a file of the cache directory; its blocks are cached "
            "in memory alone", pin.url.shown, f"{pin.size:,}",
        )  # fmt: skip

    def _give_up_directory(self, error: OSError) -> None:
        if self._has_failed:
            return
        self._has_failed = True
        self._cache = self._memory
        self._counters.set("remote_in_memory", 1)
        log.warning(
            "the cache cannot be used: %s; going on with %d MiB in memory",
            printable(describe(error)), memory_cache_size(self._start.flight_size) >> 20,
        )  # fmt: skip

    def move(self, target: FetchedObject, error: OSError | None) -> None:
        """Replace the object's failed cache by one in memory, and tell its clients."""
        cached = self._memory.open(*_identity(target.pin, self._settings))
        if error is not None:
            self._give_up_directory(error)
        else:
            self._counters.add("remote_moved")
            log.warning(
                "%s: another process has locked it in the cache and makes no progress; caching it "
                "in memory instead",
                target.pin.url.shown,
            )
        target.retired.append(target.cached)
        target.cached = cached
        for link in dict.fromkeys(target.followers):
            link.moved(target)

    def close_if_idle(self, target: FetchedObject) -> None:
        if target.followers or target.ranges or target.blocks:
            return
        if self._objects.get(target.pin) is target:
            del self._objects[target.pin]
            self._count_object(target.pin, -1)
        self._counters.add("remote_changed", -(target.broken is not None))
        self._close(target.close)

    async def sync(self) -> None:
        """Sync fetched blocks to disk, so that they survive a crash, and measure the cache."""
        await self._in_thread(self._sync)
        if self._objects:
            await self._in_thread(self._measure)

    def _measure(self) -> None:
        """Count what the cache holds, in a thread."""
        cache = self._cache or self._memory
        with contextlib.suppress(OSError):
            self._counters.set("remote_cache_bytes", cache.usage())
        self._counters.set("remote_cache_limit_bytes", cache.size_max)

    def _sync(self) -> None:
        for target in list(self._objects.values()):
            with contextlib.suppress(OSError):  # it is closed by now, or the next fill will fail
                target.cached.sync()

    def _in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return self._loop.run_in_executor(None, work)

    def _close(self, close: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the fetcher ends, and closes all
            self._in_thread(close)

    def log_failure(self, target: FetchedObject, error: RemoteError) -> None:
        if self._start.roots is None:  # a program raises it; readers of a mount get EIO alone
            return
        text = printable(describe(error))
        if target.logged != text:
            target.logged = text
            log.warning("%s", text)


def _close_opened(opening: asyncio.Future[CachedObject]) -> None:
    with contextlib.suppress(OSError):
        opening.result().close()


def _number_of(error: OSError) -> int | None:
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    return cause.errno


def _identity(pin: Pin, settings: RemoteSettings) -> Identity:
    """Return the facts of a version that the cache needs."""
    return *pin.identity(settings_for(pin.url, settings).endpoint_url), pin.to_text(with_url=False)


def _preload() -> None:
    """Load the modules that the first object needs, while its server is being asked."""
    import ffrfs.cache.directory  # noqa: F401


def _take_links(hub: socket.socket, fetcher: ObjectFetcher, ended: asyncio.Event) -> None:
    for _ in range(_LINKS_AT_A_TIME):
        try:
            message, fds, _, _ = socket.recv_fds(hub, _HELLO_SIZE, 4)
        except (BlockingIOError, InterruptedError):
            return
        except ConnectionError:
            message, fds = b"", []
        if message[:1] == b"c" and len(fds) == 1:
            _welcome(fetcher, fds.pop())
        elif message[:1] == b"f":
            fetcher.fill()
        for fd in fds:
            os.close(fd)
        if not message:
            ended.set()
            return


def _welcome(fetcher: ObjectFetcher, fd: int) -> None:
    try:
        connection = socket.socket(fileno=fd)
    except OSError:
        os.close(fd)
        return
    if connection.family == socket.AF_UNIX and connection.type == socket.SOCK_SEQPACKET:
        fetcher.welcome(connection)
    else:
        connection.close()


async def serve(hub: socket.socket, start: Start, counters: FetchCounters) -> None:
    """Run a fetcher until the hub ends."""
    hub.setblocking(False)
    fetcher = ObjectFetcher(start, counters)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(hub, _take_links, hub, fetcher, ended)
    while not ended.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), _SYNC_INTERVAL_S)
        await fetcher.sync()


def main(arguments: list[str]) -> None:
    hub_fd, start_fd, page_fd = map(int, arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the parent
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    _limit()
    with open(start_fd, "rb") as pipe:
        start = Start.from_json(pipe.read(_START_SIZE_MAX).decode())
    counters = FetchCounters(page_fd)
    os.close(page_fd)
    with socket.socket(fileno=hub_fd) as hub:
        asyncio.run(serve(hub, start, counters))
    sys.stderr.flush()
    os._exit(0)  # a thread may be in the middle of a write to a disk that hangs


class _Formatter(logging.Formatter):
    _PRIORITIES = ((logging.ERROR, 3), (logging.WARNING, 4))

    def format(self, record: logging.LogRecord) -> str:
        found = (number for level, number in self._PRIORITIES if record.levelno >= level)
        line = " ".join(super().format(record).splitlines())
        return f"<{next(found, 6)}>{line}"


def _limit() -> None:
    """Raise the limit of open files, and limit memory: a server may send an endless answer."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    _, data = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = _DATA_SIZE_MAX if data == resource.RLIM_INFINITY else min(data, _DATA_SIZE_MAX)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, data))
    # Only root may inspect a process that holds credentials, and it leaves no core dump.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


if __name__ == "__main__":
    main(sys.argv[1:])
