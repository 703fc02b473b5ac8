"""How much the engine may hold: by --cache-mb, by --max-memory, and less while memory is short.

    --cache-mb ───────────────────────────────► at most that
    --max-memory, less base and serving ──────► at most that         the size that is wanted
    what the control group may have, likewise ► at most that
    memory pressure, or more held than foreseen: a half, and again   the size now
    neither: an eighth of the wanted size more, every few seconds

The base is what daemon, worker and fetcher hold when the packs are open and nothing has been asked
yet (their tables, and the loop). What counts is anonymous memory: what the kernel has of the
packs, and the programs themselves, are its own to take back. A control group (a container, a
job) is charged for those too, so an eighth of what it may have is left to them. Its limit
is a bound, and no reason not to mount: an administrator can change it, and we follow.

Concurrency: run() is a task of the daemon's trio loop; change() is called from that loop.

Not here: how the engine shrinks (native/volume/volume.h), where pressure is read
(pressure.py).
"""

from __future__ import annotations

import logging
import os
import re
import sys

from ffrfs.errors import OptionError
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.daemon.control_group import memory_limit_files, smallest_limit_bytes
from ffrfs.mount.daemon.pressure import Pressure
from ffrfs.mount.engines.engine import Engine
from ffrfs.mount.engines.fetching import fetching_bytes
from ffrfs.mount.kernel.uring import queue_count

INTERVAL_S = 2.0  # as often as the kernel makes new averages
# Percent of time in which some task stood still for want of memory: much, and none.
PRESSURE_HIGH = 10.0
PRESSURE_LOW = 1.0
# Less than that serves no reader: a block is up to 4 MiB, and a half of it may be in flight.
CACHE_BYTES_MIN = 8 << 20
_GROWTH_STEPS = 8
# Measured under the worst loads, and rounded up: large records that are verified as a whole,
# pieces that are put together for an answer, the daemon's own clients, the C library's rest.
_FIXED_BYTES = 20 << 20
_THREAD_BYTES = 1 << 20
_QUEUE_BYTES = 64 << 10  # the stack of its thread, and its ring
_RINGS_SHARE = 8  # one such part of the cache's size is what the rings' buffers take at most
_INDEX_BYTES = 16 << 20  # native/io/kept_pages.h: pages of mapped indexes
_LOOP_BYTES = 8 << 20  # trio, which may be imported only when a worker serves
# native/prefetch/prefetcher.h, hint_list.h, hint_server.cc: all that hints can take.
_LISTS_MAX = 64
_HINTS_MAX = 65_536
_WINDOWS_MIN = 3  # that each list may have in any case
_HINT_BYTES = 112
_CLIENT_BYTES = 128 << 10  # received and not used
# Such a part may be pushed ahead of readers, who fill the rest themselves. In a control group
# they push out earlier what was pushed: its limit holds for the page cache of all.
_PUSHED_SHARE = 2
_PUSHED_GROUP_SHARE = 4
_SHORT_PERCENT = 95  # of --max-memory, held
_ROOMY_PERCENT = 85
_GROUP_SHARE = 8  # one such part of what a control group may have is not for anonymous memory

_AVAILABLE = re.compile(rb"^MemAvailable:\s*([0-9]+) kB$", re.MULTILINE)
_ANONYMOUS = re.compile(rb"^RssAnon:\s*([0-9]+) kB$", re.MULTILINE)

log = logging.getLogger(__name__)


class MemoryLimit:
    """Of one mount. Made when its engine has opened the packs, before it serves."""

    def __init__(self, request: MountRequest, engine: Engine) -> None:
        """Raises OptionError if --max-memory cannot hold even what is held already."""
        self._engine = engine
        threads = request.threads if engine.worker_pid is not None else 1
        self._serving_bytes = serving_bytes(threads, request.prefetch_records)
        if engine.fetcher_pid is not None:
            self._serving_bytes += fetching_bytes(request.max_memory_bytes)
        if engine.may_use_rings:
            self._serving_bytes += rings_bytes(queue_count(), request.opening_cache_bytes)
        self._base_bytes = self._held_bytes() + (0 if "trio" in sys.modules else _LOOP_BYTES)
        self._max_memory_bytes = request.max_memory_bytes
        self._group_files = memory_limit_files()
        self._group_bytes = smallest_limit_bytes(self._group_files)
        self._cache_bytes = request.opening_cache_bytes
        self._wanted_bytes = self._fit(self._cache_bytes, request.max_memory_bytes)
        self._now_bytes = request.opening_cache_bytes
        self._pushed_bytes = 0
        self._percent: float | None = None

    async def run(self) -> None:
        """Until cancelled."""
        import trio  # here, not above: the sizes are found before the loop is imported

        pressure = Pressure()
        try:
            self._apply(self._wanted_bytes)
            while True:
                self._apply_pushed()
                self._percent = pressure.percent()
                self._follow_group()
                self._apply(self._next_bytes())
                await trio.sleep(INTERVAL_S)
        finally:
            pressure.close()

    def change(self, cache_bytes: int, max_memory_bytes: int | None) -> None:
        """Go by these from now on; if they cannot hold, the log says so, and nothing changes."""
        try:
            wanted_bytes = self._fit(cache_bytes, max_memory_bytes)
        except OptionError as error:
            log.error("memory limits are not changed: %s", error)
            return
        was_full = self._now_bytes >= self._wanted_bytes
        self._cache_bytes, self._max_memory_bytes = cache_bytes, max_memory_bytes
        self._wanted_bytes = wanted_bytes
        self._apply(wanted_bytes if was_full else min(self._now_bytes, wanted_bytes))

    def notices(self) -> list[str]:
        """What the user should know of the control group, a line each."""
        if self._group_bytes is None:
            return []
        group = f"the control group may have {_mib(self._group_bytes)}M of memory"
        if self._max_memory_bytes is not None and self._max_memory_bytes > self._group_bytes:
            return [f"--max-memory {_mib(self._max_memory_bytes)}M has no effect: {group}"]
        needed_bytes = self._taken_bytes + min(self._cache_bytes, CACHE_BYTES_MIN)
        if needed_bytes > _share_of_group(self._group_bytes):
            return [f"{group}, and this mount may need {_mib(needed_bytes)}M under load"]
        return []

    @property
    def hinted_bytes_max(self) -> int:
        """Of a file that can be read ahead: it has to fit into an eighth of the cache.

        As native/prefetch/prefetcher.cc and io/buffer.cc have it: memory comes in sizes of which
        there are four from each power of two to the next.
        """
        limit_bytes = self._now_bytes // 8
        step = max((1 << limit_bytes.bit_length() - 1) // 4, 4096)
        return limit_bytes // step * step

    def figures(self) -> dict[str, object]:
        """Its fields of `ffrfs stats`."""
        return {
            "cache_limit_bytes": self._now_bytes,
            "memory_limit_bytes": self._max_memory_bytes,
            "memory_pressure": self._percent,
            "pushed_limit_bytes": self._pushed_bytes,
        }

    @property
    def _taken_bytes(self) -> int:
        """All but the cache, at most."""
        return self._base_bytes + self._serving_bytes

    def _fit(self, cache_bytes: int, max_memory_bytes: int | None) -> int:
        """The size that is wanted; raises OptionError."""
        least_bytes = min(cache_bytes, CACHE_BYTES_MIN)
        if max_memory_bytes is not None:
            if self._taken_bytes + least_bytes > max_memory_bytes:
                dev = ", or with --transport dev" if self._engine.may_use_rings else ""
                raise OptionError(
                    f"--max-memory {_mib(max_memory_bytes)}M cannot hold this mount: give it "
                    f"{_mib(self._taken_bytes + least_bytes)}M or more (the packs take "
                    f"{_mib(self._base_bytes)}M once they are open, serving up to "
                    f"{_mib(self._serving_bytes)}M, less with fewer --threads or a smaller "
                    f"--prefetch-window{dev}, the cache at least {_mib(least_bytes)}M)"
                )
            cache_bytes = min(cache_bytes, max_memory_bytes - self._taken_bytes)
        if self._group_bytes is not None:
            room_bytes = _share_of_group(self._group_bytes) - self._taken_bytes
            cache_bytes = min(cache_bytes, max(room_bytes, least_bytes))
        return cache_bytes

    def _follow_group(self) -> None:
        before, self._group_bytes = self._group_bytes, smallest_limit_bytes(self._group_files)
        if self._group_bytes != before:
            self.change(self._cache_bytes, self._max_memory_bytes)

    def _bound_bytes(self) -> int | None:
        """What daemon and worker may hold together."""
        group_bytes = self._group_bytes and _share_of_group(self._group_bytes)
        return min(filter(None, (self._max_memory_bytes, group_bytes)), default=None)

    def _next_bytes(self) -> int:
        percent = self._percent or 0.0
        held_bytes = 0
        if (bound_bytes := self._bound_bytes()) is not None:
            held_bytes = 100 * self._held_bytes() // bound_bytes
        if percent >= PRESSURE_HIGH or held_bytes >= _SHORT_PERCENT:
            least_bytes = min(self._wanted_bytes, CACHE_BYTES_MIN)
            return max(self._now_bytes // 2, least_bytes)
        if percent < PRESSURE_LOW and held_bytes < _ROOMY_PERCENT:
            grown_bytes = self._now_bytes + self._wanted_bytes // _GROWTH_STEPS
            return min(grown_bytes, self._wanted_bytes)
        return self._now_bytes

    def _apply(self, size_bytes: int) -> None:
        if size_bytes == self._now_bytes:
            return
        was_full = self._now_bytes >= self._wanted_bytes
        self._now_bytes = size_bytes
        self._engine.limit_cache(size_bytes)
        if size_bytes == self._wanted_bytes:
            log.info("the cache may hold %d MiB", _mib(size_bytes))
        elif was_full:
            pressure = "unknown" if self._percent is None else f"{self._percent:g} %"
            log.info(
                "memory is short (pressure %s): the cache shrinks to %d MiB, or less",
                pressure,
                _mib(size_bytes),
            )

    def _apply_pushed(self) -> None:
        """Page cache is the kernel's to take back, but it would take what was read as well."""
        bounds = [available_bytes() // _PUSHED_SHARE]
        if self._group_bytes is not None:
            bounds.append(self._group_bytes // _PUSHED_GROUP_SHARE)
        if self._max_memory_bytes is not None:
            bounds.append(self._max_memory_bytes // _PUSHED_SHARE)
        share = self._now_bytes / max(self._wanted_bytes, 1)  # less while memory is short
        size_bytes = round(min(bounds) * min(share, 1))
        if size_bytes != self._pushed_bytes:
            self._pushed_bytes = size_bytes
            self._engine.limit_pushed(size_bytes)

    def _held_bytes(self) -> int:
        pids = (os.getpid(), self._engine.worker_pid, self._engine.fetcher_pid)
        return sum(map(anonymous_bytes, pids))


def serving_bytes(threads: int, prefetch_records: int) -> int:
    """What daemon and worker come to hold beside base and cache, at most."""
    hints_bytes = 0
    if prefetch_records > 0:
        hint_count = _HINTS_MAX + _LISTS_MAX * _WINDOWS_MIN * prefetch_records
        hints_bytes = hint_count * _HINT_BYTES + _LISTS_MAX * _CLIENT_BYTES
    return _FIXED_BYTES + _INDEX_BYTES + threads * _THREAD_BYTES + hints_bytes


def rings_bytes(queue_count: int, opening_cache_bytes: int) -> int:
    """What so many queues of io_uring come to hold, at most."""
    return opening_cache_bytes // _RINGS_SHARE + queue_count * _QUEUE_BYTES


def _share_of_group(limit_bytes: int) -> int:
    """What of a control group's limit anonymous memory may take."""
    return limit_bytes - limit_bytes // _GROUP_SHARE


def available_bytes() -> int:
    """What the kernel could give to new pages without swapping; 0: it does not say."""
    try:
        with open("/proc/meminfo", "rb") as file:
            found = _AVAILABLE.search(file.read())
    except OSError:
        return 0
    return int(found[1]) << 10 if found else 0


def anonymous_bytes(pid: int | None) -> int:
    """Physical memory that is no file's (RssAnon); 0: there is no such process."""
    if pid is None:
        return 0
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            found = _ANONYMOUS.search(file.read())
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(found[1]) << 10 if found else 0  # none: it is a zombie


def _mib(size_bytes: int) -> int:
    return -(-size_bytes // (1 << 20))
