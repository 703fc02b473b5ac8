"""The activity of a mount between two answers of its daemon, and its present state.

An answer may be another version's, or, for root, a hostile user's: a value that is not a number
of a sensible size raises ValueError here, and is never drawn.

No state; any thread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ffrfs.mount.stats.stats_delta import StatsDelta, Times

_NUMBER_MAX = 1e18
_SOURCES = {"memory": "bytes_memory", "page cache": "bytes_page_cache", "storage": "bytes_storage"}
_AHEAD = {
    "prefetch": ("fetched", "pushed", "hit", "late"),
    "readahead": ("fetched", "pushed", "hit"),
    "read_around": ("pushed",),
}
# The fields for mounts with packs at URLs.
_REMOTE = ("bytes", "blocks_hit", "blocks_fetched", "retries", "throttled", "errors")
# The errors that an answer of another version, or of another user's mount, may cause.
BAD_ANSWER = (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError)


@dataclass(frozen=True, kw_only=True)
class Holdings:
    """The state of the mount at the time of one answer."""

    engine: str
    transport: str | None  # None: an older version does not have it
    threads: int
    age_s: float
    cache_bytes: float
    cache_limit_bytes: float
    block_cache_bytes: float  # bytes of cached blocks of URLs; 0 without a fetcher
    block_cache_limit_bytes: float
    resident_bytes: float
    memory_limit_bytes: float | None
    memory_pressure: float | None  # percent
    queue_depth: int
    checksums_failed: int
    unreadable_files: int


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The activity of the mount between two times of this machine's monotonic clock."""

    begin_s: float
    end_s: float
    bytes_per_s: float
    requests_per_s: float
    p50_us: float | None  # over all requests; None: there were none
    p99_us: float | None
    hit: float | None  # share of the bytes that did not wait for storage; None: no bytes
    sources: Mapping[str, float]  # bytes a second
    ahead: Mapping[str, Mapping[str, float]]  # records a second: "prefetch" → "fetched" → 7.5
    kinds: Mapping[str, Times]  # only kinds with requests
    remote: Mapping[str, float] = field(default_factory=dict)  # per second; empty: no fetcher


def holdings(answer: Mapping[str, Any]) -> Holdings:
    remote = answer.get("remote") or {}
    return Holdings(
        engine=str(answer["engine"]),
        transport=None if answer.get("transport") is None else str(answer["transport"]),
        threads=int(_number(answer["threads"])),
        age_s=_number(answer["age_s"]),
        cache_bytes=_number(answer["cache_bytes"]),
        cache_limit_bytes=_number(answer["cache_limit_bytes"]),
        block_cache_bytes=_number(remote.get("cache_bytes", 0)),
        block_cache_limit_bytes=_number(remote.get("cache_limit_bytes", 0)),
        resident_bytes=_number(answer["resident_bytes"]),
        memory_limit_bytes=_number_or_none(answer["memory_limit_bytes"]),
        memory_pressure=_number_or_none(answer["memory_pressure"]),
        queue_depth=int(_number(answer["queue_depth"])),
        checksums_failed=int(_number(answer["checksums_failed"])),
        # Answers of older versions lack it.
        unreadable_files=int(_number(answer.get("unreadable_files", 0))),
    )


def sample(delta: StatsDelta, begin_s: float, end_s: float) -> Sample:
    times = delta.all_times()
    kinds = {kind: delta.times(kind) for kind in delta.active_kinds()}
    for each in (times, *kinds.values()):
        for number in (each.per_s, each.p50_us, each.p99_us):
            _number_or_none(number)
    return Sample(
        begin_s=begin_s,
        end_s=end_s,
        bytes_per_s=_rate(delta, "bytes_served"),
        requests_per_s=_rate(delta, "request_count"),
        p50_us=times.p50_us,
        p99_us=times.p99_us,
        hit=_hit(delta),
        sources={title: _rate(delta, name) for title, name in _SOURCES.items()},
        ahead={
            way: {event: _rate(delta, way, event) for event in events}
            for way, events in _AHEAD.items()
            if delta.has(way)  # a daemon of an older version has fewer
        },
        kinds=kinds,
        remote={name: _rate(delta, "remote", name) for name in _REMOTE if delta.has("remote")},
    )


def _hit(delta: StatsDelta) -> float | None:
    """Return the share of the served bytes that readers got without waiting for storage.

    Bytes that were not in memory were read, from the page cache or from storage. These
    two are counted in whole records, so only their proportion is used.
    """
    served, memory = (_growth(delta, name) for name in ("bytes_served", "bytes_memory"))
    if served <= 0:
        return None
    at_once, waited = (_growth(delta, name) for name in ("bytes_page_cache", "bytes_storage"))
    missed = max(served - memory, 0)
    return 1 - missed / served * (waited / (at_once + waited) if waited else 0)


def _growth(delta: StatsDelta, *names: str) -> float:
    return max(_number(delta.growth(*names)), 0)


def _rate(delta: StatsDelta, *names: str) -> float:
    return max(_number(delta.per_s(*names)), 0)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("not a number")
    if not math.isfinite(value) or abs(value) > _NUMBER_MAX:
        raise ValueError("not a number of anything")
    return float(value)


def _number_or_none(value: object) -> float | None:
    return None if value is None else _number(value)
