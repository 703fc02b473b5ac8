"""Limits the engine's memory: by --cache-mb, by --max-memory, and further while memory is short.

    --cache-mb ───────────────────────────────► at most that
    --max-memory, less base and serving ──────► at most that         the wanted size
    the control group's limit, likewise ──────► at most that
    memory pressure, or more held than foreseen: half, again and again   the current size
    neither: an eighth of the wanted size more, every few seconds

The base is the memory that daemon, worker and fetcher hold when the packs are open and no request
has come yet (their tables, and the loop), or a little more. Only anonymous memory counts: the
kernel can take back the page cache of packs and programs. A control group (a container, a job) is
charged for these, too, so an eighth of its limit is left to them. The group's limit, as it is at
the start, bounds the size, but does not keep a mount from coming up.

Concurrency: run() is a task of the daemon's trio loop; change() is called from that loop.

Not here: how the engine shrinks (native/volume/volume.h), reading the pressure (pressure.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys

from ffrfs.errors import OptionError
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.daemon.control_group import memory_limit_bytes
from ffrfs.mount.daemon.pressure import Pressure
from ffrfs.mount.engines.engine import Engine
from ffrfs.mount.engines.mount_fetcher import fetching_bytes
from ffrfs.mount.kernel.uring import queue_count

# Percent of time in which some task stalled for want of memory: a high share, and almost none.
PRESSURE_HIGH = 10.0
PRESSURE_LOW = 1.0
# A smaller cache serves no reader: a block has up to 4 MiB, and half of it may be in flight.
CACHE_BYTES_MIN = 8 << 20
_GROWTH_STEPS = 8
# Measured under the worst loads, and rounded up: large records that are verified as a whole,
# answers that are assembled from pieces, the daemon's own clients, overhead of the C library.
_FIXED_BYTES = 20 << 20
_THREAD_BYTES = 1 << 20
_QUEUE_BYTES = 64 << 10  # the stack of a queue's thread, and its ring
_RINGS_SHARE = 8  # the rings' buffers take at most this fraction of the cache's size
_INDEX_BYTES = 16 << 20  # native/io/kept_pages.h: pages of mapped indexes
_LOOP_BYTES = 8 << 20  # trio, which may be imported only when a worker serves
# A little more than a daemon, or a fetcher, and a worker hold at their start. The amount is fixed,
# because `mount --check`, which does not import all of a daemon, must find the same as the daemon.
_PYTHON_BYTES = 45 << 19
_WORKER_BYTES = 3 << 19
# The limits of hints in native/prefetch/prefetcher.h, hint_list.h, hint_server.cc.
_LISTS_MAX = 64
_HINTS_MAX = 65_536
_WINDOWS_MIN = 3  # that each list may always have
_HINT_BYTES = 112
_CLIENT_BYTES = 128 << 10  # received, and not parsed yet
# Fractions of memory that may be pushed ahead of readers, who fill the rest by themselves. A
# control group's limit includes the page cache, so readers evict pushed pages sooner there.
_PUSHED_SHARE = 2
_PUSHED_GROUP_SHARE = 4
_PUSHED_STEPS = 16  # a smaller change of the limit is not worth waking the worker
# What processes hold at the beginning differs by some megabytes from one time to the next.
_SPARE_BYTES = 4 << 20
_SHORT_PERCENT = 95  # of --max-memory in use
_ROOMY_PERCENT = 85
_GROUP_SHARE = 8  # this fraction of a control group's limit is not for anonymous memory

_AVAILABLE = re.compile(rb"^MemAvailable:\s*([0-9]+) kB$", re.MULTILINE)
_ANONYMOUS = re.compile(rb"^RssAnon:\s*([0-9]+) kB$", re.MULTILINE)

log = logging.getLogger(__name__)


class MemoryLimit:
    """The memory limit of a mount; made when its engine has opened the packs, before it serves."""

    def __init__(
        self, request: MountRequest, engine: Engine, base_bytes: int | None = None
    ) -> None:
        """Compute the wanted size. Raises OptionError if --max-memory cannot hold this mount.

        `base_bytes`: of the limit that an earlier daemon of the mount has made.
        """
        self._engine = engine
        threads = request.threads if engine.deaths is not None else 1
        self._serving_bytes = serving_bytes(threads, request.prefetch_records)
        if engine.fetcher_pid is not None:
            self._serving_bytes += fetching_bytes(request.max_memory_bytes)
        if engine.may_use_rings:
            self._serving_bytes += rings_bytes(queue_count(), request.opening_cache_bytes)
        self.base_bytes = base_bytes or self._begun_bytes()
        self._max_memory_bytes = request.max_memory_bytes
        self._max_memory = request.written("max_memory")  # for errors
        self._group_bytes = memory_limit_bytes()
        self._asked_bytes = request.cache_bytes
        self._cache_bytes = request.opening_cache_bytes
        self._wanted_bytes = self._fit(self._cache_bytes, request.max_memory_bytes)
        self._now_bytes = request.opening_cache_bytes
        self._pushed_bytes = 0
        self._percent: float | None = None

    async def run(self) -> None:
        """Adjust the sizes until cancelled."""
        import trio  # here, not above: the sizes are computed before the loop is imported

        from ffrfs.mount.engines.tick import tick

        pressure = Pressure()
        try:
            self._apply(self._wanted_bytes)
            while True:
                # Without a descriptor for a look the sizes stay, and the mount serves on.
                with contextlib.suppress(OSError):
                    self._apply_pushed()
                    self._percent = pressure.percent()
                    self._apply(self._next_bytes())
                await trio.sleep_until(tick())
        finally:
            pressure.close()

    def change(self, cache_bytes: int, max_memory_bytes: int | None) -> bool:
        """Apply new limits; if the mount cannot fit in them, log it and return False."""
        try:
            wanted_bytes = self._fit(cache_bytes, max_memory_bytes)
        except OptionError as error:
            log.error("memory limits are not changed: %s", error)
            return False
        was_full = self._now_bytes >= self._wanted_bytes
        self._asked_bytes = self._cache_bytes = cache_bytes
        self._max_memory_bytes = max_memory_bytes
        self._wanted_bytes = wanted_bytes
        self._apply(wanted_bytes if was_full else min(self._now_bytes, wanted_bytes))
        return True

    def notices(self) -> list[str]:
        """Return warnings about the control group, one line each."""
        if self._group_bytes is None:
            return []
        group = f"the control group may have {_mib(self._group_bytes)}M of memory"
        if self._max_memory_bytes is not None and self._max_memory_bytes > self._group_bytes:
            return [f"{self._max_memory} {_mib(self._max_memory_bytes)}M has no effect: {group}"]
        needed_bytes = self._taken_bytes + min(self._cache_bytes, CACHE_BYTES_MIN)
        if needed_bytes > _share_of_group(self._group_bytes):
            enough_bytes = -(-needed_bytes * _GROUP_SHARE // (_GROUP_SHARE - 1))
            return [f"{group}, and this mount may need {_mib(enough_bytes)}M under load"]
        return []

    @property
    def hinted_bytes_max(self) -> int:
        """The size of the largest file that can be read ahead: an eighth of the cache.

        As in native/prefetch/prefetcher.cc and io/buffer.cc, memory comes in sizes of which there
        are four from each power of two to the next.
        """
        limit_bytes = self._now_bytes // 8
        step = max((1 << limit_bytes.bit_length() - 1) // 4, 4096)
        return limit_bytes // step * step

    def figures(self) -> dict[str, object]:
        """Return the fields of `ffrfs stats`."""
        return {
            "cache_limit_bytes": self._now_bytes,
            "cache_asked_bytes": self._asked_bytes,
            "cache_limited_by": self._limited_by,
            "memory_limit_bytes": self._max_memory_bytes,
            "memory_pressure": self._percent,
            "pushed_limit_bytes": self._pushed_bytes,
        }

    @property
    def _limited_by(self) -> str | None:
        """Return why the cache is smaller than asked: for a short time, or all the time."""
        if self._now_bytes < self._wanted_bytes:
            return "memory_pressure"
        if self._now_bytes >= self._asked_bytes:
            return None
        most_bytes = self._max_memory_bytes
        # When the packs are opened, the cache gets at most half of --max-memory.
        is_by_max = most_bytes is not None and self._wanted_bytes >= min(
            self._cache_bytes, most_bytes - self._taken_bytes
        )
        return "max_memory" if is_by_max else "control_group"

    @property
    def _taken_bytes(self) -> int:
        """The memory of all but the cache, at most."""
        return self.base_bytes + self._serving_bytes

    def _fit(self, cache_bytes: int, max_memory_bytes: int | None) -> int:
        """Return the wanted size. Raises OptionError if --max-memory cannot hold the mount."""
        least_bytes = min(cache_bytes, CACHE_BYTES_MIN)
        if max_memory_bytes is not None:
            needed_bytes = self._taken_bytes + least_bytes
            if needed_bytes > max_memory_bytes:
                dev = ", or with --transport dev" if self._engine.may_use_rings else ""
                raise OptionError(
                    f"{self._max_memory} {_mib(max_memory_bytes)}M cannot hold this mount: give it "
                    f"{_mib(needed_bytes + _SPARE_BYTES)}M or more (the packs take "
                    f"{_mib(self.base_bytes)}M once they are open, serving up to "
                    f"{_mib(self._serving_bytes)}M, less with fewer --threads or a smaller "
                    f"--prefetch-window{dev}, the cache at least {_mib(least_bytes)}M, and "
                    f"{_mib(_SPARE_BYTES)}M are to spare)"
                )
            cache_bytes = min(cache_bytes, max_memory_bytes - self._taken_bytes)
        if self._group_bytes is not None:
            room_bytes = _share_of_group(self._group_bytes) - self._taken_bytes
            cache_bytes = min(cache_bytes, max(room_bytes, least_bytes))
        return cache_bytes

    def _bound_bytes(self) -> int | None:
        """Return the bytes that daemon and worker may hold together, or None without a limit."""
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
        """Limit pushed bytes: the kernel may drop them, but drops pages that were read as well."""
        bounds = [available_bytes() // _PUSHED_SHARE]
        if self._group_bytes is not None:
            bounds.append(self._group_bytes // _PUSHED_GROUP_SHARE)
        if self._max_memory_bytes is not None:
            bounds.append(self._max_memory_bytes // _PUSHED_SHARE)
        share = self._now_bytes / max(self._wanted_bytes, 1)  # less while memory is short
        size_bytes = round(min(bounds) * min(share, 1))
        if abs(size_bytes - self._pushed_bytes) * _PUSHED_STEPS > self._pushed_bytes:
            self._pushed_bytes = size_bytes
            self._engine.limit_pushed(size_bytes)

    def _begun_bytes(self) -> int:
        """Return the memory that is held when the packs are open, or soon will be."""
        loop_bytes = 0 if "trio" in sys.modules else _LOOP_BYTES
        begun_bytes = max(anonymous_bytes(os.getpid()) + loop_bytes, _PYTHON_BYTES)
        for pid, least_bytes in (
            (self._engine.worker_pid, _WORKER_BYTES),
            (self._engine.fetcher_pid, _PYTHON_BYTES),
        ):
            begun_bytes += 0 if pid is None else max(anonymous_bytes(pid), least_bytes)
        return begun_bytes

    def _held_bytes(self) -> int:
        pids = (os.getpid(), self._engine.worker_pid, self._engine.fetcher_pid)
        return sum(map(anonymous_bytes, pids))


def serving_bytes(threads: int, prefetch_records: int) -> int:
    """Return the largest number of bytes of daemon and worker beside base and cache."""
    hints_bytes = 0
    if prefetch_records > 0:
        hint_count = _HINTS_MAX + _LISTS_MAX * _WINDOWS_MIN * prefetch_records
        hints_bytes = hint_count * _HINT_BYTES + _LISTS_MAX * _CLIENT_BYTES
    return _FIXED_BYTES + _INDEX_BYTES + threads * _THREAD_BYTES + hints_bytes


def rings_bytes(queue_count: int, opening_cache_bytes: int) -> int:
    """Return the largest number of bytes that so many io_uring queues hold."""
    return opening_cache_bytes // _RINGS_SHARE + queue_count * _QUEUE_BYTES


def _share_of_group(limit_bytes: int) -> int:
    """Return the part of a control group's limit that is for anonymous memory."""
    return limit_bytes - limit_bytes // _GROUP_SHARE


def available_bytes() -> int:
    """Return the bytes that new pages could get without swapping; 0 if the kernel does not say."""
    try:
        with open("/proc/meminfo", "rb") as file:
            found = _AVAILABLE.search(file.read())
    except OSError:
        return 0
    return int(found[1]) << 10 if found else 0


def anonymous_bytes(pid: int | None) -> int:
    """Return the anonymous physical memory (RssAnon); 0 if no such process is seen (hidepid=)."""
    if pid is None:
        return 0
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            found = _ANONYMOUS.search(file.read())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0
    return int(found[1]) << 10 if found else 0  # a zombie has no such line


def _mib(size_bytes: int) -> int:
    return -(-size_bytes // (1 << 20))
