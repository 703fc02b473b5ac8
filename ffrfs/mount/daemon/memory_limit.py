"""How much the engine may hold: by --cache-mb, by --max-memory, and less while memory is short.

    --cache-mb ───────────────────────────────► at most that
    --max-memory, less base and serving ──────► at most that         the size that is wanted
    memory pressure, or more held than foreseen: a half, and again   the size now
    neither: an eighth of the wanted size more, every few seconds

The base is what daemon and worker hold when the packs are open and nothing has been asked
yet (their tables). What counts is anonymous memory: pages of the packs that are mapped, and
the programs themselves, are the kernel's to take back.

Concurrency: run() is a task of the daemon's trio loop; change() is called from that loop.

Not here: how the engine shrinks (native/volume/volume.h), where pressure is told
(pressure.py).
"""

from __future__ import annotations

import logging
import os
import re
from typing import TYPE_CHECKING

import trio

from ffrfs.errors import OptionError
from ffrfs.mount.pressure import Pressure
from ffrfs.mount.request import MountRequest

if TYPE_CHECKING:
    from ffrfs.mount.engine import Engine

INTERVAL_S = 2.0  # as often as the kernel makes new averages
# Percent of time in which some task stood still for want of memory: much, and none.
PRESSURE_HIGH = 10.0
PRESSURE_LOW = 1.0
# Less than that serves nobody: a block is up to 4 MiB, and a half of it may be in flight.
CACHE_BYTES_MIN = 8 << 20
_GROWTH_STEPS = 8
# Measured under the worst loads, and rounded up: large records that are verified as a whole,
# pieces that are put together for an answer, the daemon's own clients, the C library's rest.
_FIXED_BYTES = 20 << 20
_THREAD_BYTES = 1 << 20
# native/volume/prefetcher.h, hint_list.h, hint_clients.cc: all that hints can take.
_LISTS_MAX = 64
_HINTS_MAX = 65_536
_WINDOWS_MIN = 3  # that each list may have in any case
_HINT_BYTES = 112
_CLIENT_BYTES = 128 << 10  # received and not used
_SHORT_PERCENT = 95  # of --max-memory, held
_ROOMY_PERCENT = 85

_ANONYMOUS = re.compile(rb"^RssAnon:\s*([0-9]+) kB$", re.MULTILINE)

log = logging.getLogger(__name__)


def opening_cache_bytes(request: MountRequest) -> int:
    """What the engine is opened with.

    It decides what of a TFRecord file can be shown and read at all, so it depends on the
    command line alone.
    """
    if request.max_memory_bytes is None:
        return request.cache_bytes
    return min(request.cache_bytes, request.max_memory_bytes // 2)


class MemoryLimit:
    """Of one mount. Made when its engine has opened the packs, before it serves."""

    def __init__(self, request: MountRequest, engine: Engine) -> None:
        """Raises OptionError if --max-memory cannot hold even what is held already."""
        self._engine = engine
        threads = request.threads if engine.worker_pid is not None else 1
        self._serving_bytes = serving_bytes(threads, request.prefetch_records)
        self._base_bytes = self._held_bytes()
        self._max_memory_bytes = request.max_memory_bytes
        self._wanted_bytes = self._fit(opening_cache_bytes(request), request.max_memory_bytes)
        self._now_bytes = opening_cache_bytes(request)
        self._percent: float | None = None

    async def run(self) -> None:
        """Until cancelled."""
        pressure = Pressure()
        try:
            self._apply(self._wanted_bytes)
            while True:
                self._percent = pressure.percent()
                self._apply(self._next_bytes())
                await trio.sleep(INTERVAL_S)
        finally:
            pressure.close()

    def change(self, cache_bytes: int, max_memory_bytes: int | None) -> None:
        """Go by these from now on; if they cannot hold, the log says so, and nothing changes."""
        try:
            wanted_bytes = self._fit(cache_bytes, max_memory_bytes)
        except OptionError as error:
            log.error("the limits of memory stay as they are: %s", error)
            return
        was_full = self._now_bytes >= self._wanted_bytes
        self._wanted_bytes, self._max_memory_bytes = wanted_bytes, max_memory_bytes
        self._apply(wanted_bytes if was_full else min(self._now_bytes, wanted_bytes))

    def figures(self) -> dict[str, object]:
        """Its fields of `ffrfs stats`."""
        return {
            "cache_limit_bytes": self._now_bytes,
            "memory_limit_bytes": self._max_memory_bytes,
            "memory_pressure": self._percent,
        }

    def _fit(self, cache_bytes: int, max_memory_bytes: int | None) -> int:
        if max_memory_bytes is None:
            return cache_bytes
        taken_bytes = self._base_bytes + self._serving_bytes
        least_bytes = min(cache_bytes, CACHE_BYTES_MIN)
        if taken_bytes + least_bytes > max_memory_bytes:
            raise OptionError(
                f"--max-memory {_mib(max_memory_bytes)}M cannot hold this mount: give it "
                f"{_mib(taken_bytes + least_bytes)}M or more (the packs take "
                f"{_mib(self._base_bytes)}M once they are open, serving up to "
                f"{_mib(self._serving_bytes)}M, less with fewer --threads or a smaller "
                f"--prefetch-window, the cache at least {_mib(least_bytes)}M)"
            )
        return min(cache_bytes, max_memory_bytes - taken_bytes)

    def _next_bytes(self) -> int:
        percent = self._percent or 0.0
        held_bytes = 0
        if self._max_memory_bytes is not None:
            held_bytes = 100 * self._held_bytes() // self._max_memory_bytes
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

    def _held_bytes(self) -> int:
        return anonymous_bytes(os.getpid()) + anonymous_bytes(self._engine.worker_pid)


def serving_bytes(threads: int, prefetch_records: int) -> int:
    """What daemon and worker come to hold beside base and cache, at most."""
    hints_bytes = 0
    if prefetch_records > 0:
        hint_count = _HINTS_MAX + _LISTS_MAX * _WINDOWS_MIN * prefetch_records
        hints_bytes = hint_count * _HINT_BYTES + _LISTS_MAX * _CLIENT_BYTES
    return _FIXED_BYTES + threads * _THREAD_BYTES + hints_bytes


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
