"""The statistics of a mount and its present state, as `ffrfs stats --json` shows them.

They come from the engine's counters. A worker, which reads hostile packs, writes these: a
missing row counts as 0, and no number in a row is trusted to make sense.

Concurrency: no state. Waits for nothing: /proc/PID/statm needs no lock of the process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.daemon.memory_limit import MemoryLimit
from ffrfs.mount.engines.counter_page import Counters, first_value
from ffrfs.mount.engines.engine import Engine
from ffrfs.mount.stats.request_times import (
    BUCKET_COUNT,
    KINDS,
    buckets_of,
    percentile_us,
    slow_count,
)
from ffrfs.remote.fetch_counters import NAMES

_ROWS = (
    *("reads", "bytes_served", "bytes_memory", "bytes_page_cache", "bytes_storage"),
    *("checksums_verified", "checksums_failed", "read_failures", "queue_depth"),
)
# Fields of groups, whose rows have the group's name before: the hit of prefetch is prefetch_hit.
# Files read ahead, for hints and for readers in order.
_PREFETCH = ("hinted", "fetched", "pushed", "hit", "late", "dropped", "too_large", "wasted_bytes")
_READAHEAD = ("fetched", "pushed", "hit", "wasted_bytes")
# Neighbours of files that were read in no order.
_AROUND = ("pushed", "read_bytes", "controls", "controls_read", "given_up", "unread_bytes")
# Files that `ffrfs warm` requested.
_WARM = ("begun", "files", "pushed", "left_out", "left")
_CACHE_ROWS = ("bytes_in_flight", "bytes_kept", "bytes_prefetched", "bytes_metadata")


def statistics(
    request: MountRequest, engine: Engine, memory: MemoryLimit, age_s: float, requests_per_s: float
) -> dict[str, object]:
    """Return all fields, in the order for people; `age_s` is the mount's."""
    counters = engine.counters()
    daemon_bytes = _resident_bytes(os.getpid())
    worker_bytes = _resident_bytes(engine.worker_pid)
    fetcher_bytes = _resident_bytes(engine.fetcher_pid)
    return {
        "mountpoint": request.mountpoint,
        "pack": request.title,
        "packs": list(request.packs),
        "on_conflict": request.options.on_conflict,
        "engine": engine.name,
        "transport": engine.transport,
        "threads": request.threads if engine.deaths is not None else 1,
        "daemon_pid": os.getpid(),
        "worker_pid": engine.worker_pid,
        "fetcher_pid": engine.fetcher_pid,
        "age_s": round(age_s, 3),
        "requests_per_s": round(requests_per_s, 1),
        **counted(counters),
        "remote": fetched(counters),
        "worker": None if engine.deaths is None else engine.deaths.figures(counters),
        "refusal": engine.refusal,
        **memory.figures(),
        "resident_bytes": sum(each or 0 for each in (daemon_bytes, worker_bytes, fetcher_bytes)),
        "daemon_resident_bytes": daemon_bytes,
        "worker_resident_bytes": worker_bytes,
        "fetcher_resident_bytes": fetcher_bytes,
        "unreadable_files": engine.failures.file_count,
    }


def counted(counters: Counters) -> dict[str, object]:
    """Return the fields that come from the engine's counters."""
    histograms = {kind: counters.get(f"request.{kind}", [])[:BUCKET_COUNT] for kind in KINDS}
    return {
        "request_count": sum(map(sum, histograms.values())),
        "requests": {
            kind: _times(histogram, first_value(counters, f"request_ns.{kind}"))
            for kind, histogram in histograms.items()
        },
        **{name: first_value(counters, name) for name in _ROWS},
        "prefetch": {
            **_group(counters, "prefetch", _PREFETCH),
            "queue_depth_max": first_value(counters, "prefetch_depth_max"),
        },
        "readahead": _group(counters, "readahead", _READAHEAD),
        "read_around": _group(counters, "around", _AROUND),
        "warm": _group(counters, "warm", _WARM),
        "cache_bytes": sum(first_value(counters, row) for row in _CACHE_ROWS),
    }


def fetched(counters: Counters) -> dict[str, int] | None:
    """Return the fetcher's counters, or None if there is no fetcher."""
    if "remote_starts" not in counters:
        return None
    return _group(counters, "remote", [name.removeprefix("remote_") for name in NAMES])


def _group(counters: Counters, name: str, fields: Iterable[str]) -> dict[str, int]:
    return {field: first_value(counters, f"{name}_{field}") for field in fields}


def _times(histogram: list[int], total_ns: int) -> dict[str, object]:
    buckets = buckets_of(histogram)
    return {
        "count": sum(histogram),
        "total_us": total_ns / 1000,
        "p50_us": percentile_us(buckets, 50),
        "p99_us": percentile_us(buckets, 99),
        "slow": slow_count(buckets),
        "buckets": buckets,
    }


def _resident_bytes(pid: int | None) -> int | None:
    """Return the resident memory (RSS); pages that two processes share count in both.

    Returns None if no such process is seen: with hidepid= (proc(5)) a fetcher is not.
    """
    if pid is None:
        return None
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
