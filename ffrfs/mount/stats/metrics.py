"""A mount's metrics for Prometheus: its text exposition format, version 0.0.4.

They come from the fields of `ffrfs stats --json` (statistics.py). The names are stable. Times
are in seconds, sizes in bytes; counters end in _total and begin at 0 with each mount. The
histogram's bounds are ends of the buckets in which an engine counts, so that every number
in it is exact.

No state; any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ffrfs.mount.stats.request_times import Buckets
from ffrfs.printable import printable

# 4 µs, 16 µs, … 17 s: powers of 4 of the unit in which times are counted, 256 ns.
BOUNDS_US = tuple(256 * 4**power / 1000 for power in range(2, 14))

_Labels = Mapping[str, str]
_Sample = tuple[str, _Labels, float]  # suffix of the name, labels, value

_SOURCES = ("memory", "page_cache", "storage")
_READ_AHEAD_RECORDS = {
    "prefetch": ("hinted", "fetched", "pushed", "hit", "late", "dropped"),
    "readahead": ("fetched", "pushed", "hit"),
}


def prometheus(statistics: Mapping[str, Any]) -> str:
    """Return the whole text. Raises KeyError, TypeError for statistics of another version."""
    mountpoint = {"mountpoint": statistics["mountpoint"]}
    lines: list[str] = []
    for name, kind, text, samples in _families(statistics):
        if samples:
            lines += [f"# HELP ffrfs_{name} {text}", f"# TYPE ffrfs_{name} {kind}"]
        lines += [
            f"ffrfs_{name}{suffix}{_braced(mountpoint | dict(labels))} {value!r}"
            for suffix, labels, value in samples
        ]
    return "".join(f"{line}\n" for line in lines)


def _families(found: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Sequence[_Sample]]]:
    """Yield each metric's name, type, meaning and samples."""
    about = {name: found[name] for name in ("pack", "engine", "transport")}
    yield (
        *("mount_info", "gauge", "What is mounted, by which engine and transport; always 1."),
        _one(1, about),
    )
    yield "mount_age_seconds", "gauge", "Seconds since it was mounted.", _one(found["age_s"])
    yield (
        *("request_duration_seconds", "histogram"),
        "Requests of the kernel, from being received to being answered.",
        [sample for kind, times in found["requests"].items() for sample in _times(kind, times)],
    )
    yield (
        *("slow_requests_total", "counter", "Requests that took 1.07 s or longer; see the log."),
        _by("kind", {kind: times["slow"] for kind, times in found["requests"].items()}),
    )
    yield "reads_total", "counter", "Requests for bytes of a file.", _one(found["reads"])
    yield "served_bytes_total", "counter", "Bytes in the answers.", _one(found["bytes_served"])
    yield (
        *("source_bytes_total", "counter", "Bytes read for the answers, by source."),
        _by("source", {source: found[f"bytes_{source}"] for source in _SOURCES}),
    )
    for result in ("verified", "failed"):
        yield (
            *(f"checksums_{result}_total", "counter", f"Checksums that were {result}."),
            _one(found[f"checksums_{result}"]),
        )
    yield (
        *("unreadable_files", "gauge", "Files that could not be read since it was mounted."),
        _one(found["unreadable_files"]),
    )
    yield (
        *("read_failures_total", "counter", "Requests for bytes of a file that failed."),
        _one(found["read_failures"]),
    )
    for way, events in _READ_AHEAD_RECORDS.items():
        why = "for hints" if way == "prefetch" else "for readers in order"
        yield (
            *(f"{way}_records_total", "counter", f"Records read ahead {why}, by outcome."),
            _by("event", {event: found[way][event] for event in events}),
        )
        yield (
            *(f"{way}_wasted_bytes_total", "counter", f"Bytes read ahead {why} and not used."),
            _one(found[way]["wasted_bytes"]),
        )
    yield from _around(found["read_around"], found["pushed_limit_bytes"])
    yield from _remote(found["remote"])
    yield from _worker(found["worker"])
    if (starts := found.get("daemon_starts")) is not None:
        yield "daemon_starts_total", "counter", "Daemons after the first one.", _one(starts)
    yield "queue_depth", "gauge", "Reads that wait for storage.", _one(found["queue_depth"])
    yield from _memory(found)


def _remote(
    found: Mapping[str, int] | None,
) -> Iterator[tuple[str, str, str, Sequence[_Sample]]]:
    """Yield the metrics of a mount that has a fetcher."""
    if found is None:
        return
    for name, kind, field, text in (
        ("fetched_bytes_total", "counter", "bytes", "Bytes that came from servers."),
        ("fetch_requests_total", "counter", "requests", "Requests to servers."),
        ("fetch_retries_total", "counter", "retries", "Requests that were tried again."),
        ("fetch_throttled_total", "counter", "throttled", "Retries for which a server asked."),
        ("fetch_errors_total", "counter", "errors", "Blocks that could not be fetched."),
        ("fetch_ranges", "gauge", "ranges", "Ranges under way."),
        ("fetcher_starts_total", "counter", "starts", "Fetchers that were started."),
        ("block_cache_bytes", "gauge", "cache_bytes", "Bytes in the cache of blocks."),
        ("block_cache_limit_bytes", "gauge", "cache_limit_bytes", "Limit of the cache."),
        ("block_cache_in_memory", "gauge", "in_memory", "1 if its directory cannot be used."),
    ):
        yield name, kind, text, _one(found[field])
    blocks = {event: found[f"blocks_{event}"] for event in ("hit", "fetched", "again")}
    yield (
        *("blocks_total", "counter", "Blocks that were read from the cache, or fetched."),
        _by("event", blocks),
    )


def _worker(
    found: Mapping[str, Any] | None,
) -> Iterator[tuple[str, str, str, Sequence[_Sample]]]:
    """Yield the metrics of a mount that has a worker."""
    if found is None:
        return
    for name, kind, field, text in (
        ("worker_deaths_total", "counter", "deaths", "Workers that died, and were replaced."),
        ("resent_requests_total", "counter", "resent", "Requests of dead workers, sent again."),
        ("quarantined_requests", "gauge", "quarantined", "Requests that ended workers."),
        ("worker_pause_seconds_max", "gauge", "longest_pause_s", "Longest time without a worker."),
    ):
        yield name, kind, text, _one(found[field])


def _around(
    found: Mapping[str, Any], limit_bytes: int
) -> Iterator[tuple[str, str, str, Sequence[_Sample]]]:
    events = ("pushed", "controls", "controls_read")
    yield (
        *("read_around_records_total", "counter", "Neighbours of files read in no order."),
        _by("event", {event: found[event] for event in events}),
    )
    yield (
        *("read_around_read_bytes_total", "counter", "Bytes of the packs read for neighbours."),
        _one(found["read_bytes"]),
    )
    yield (
        *("read_around_given_up_total", "counter", "Times that taking neighbours was stopped."),
        _one(found["given_up"]),
    )
    yield (
        *("read_around_unread_bytes", "gauge", "Estimate of bytes pushed and not read."),
        _one(found["unread_bytes"]),
    )
    yield "read_around_limit_bytes", "gauge", "Limit of those bytes.", _one(limit_bytes)


def _memory(found: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Sequence[_Sample]]]:
    yield "cache_bytes", "gauge", "Memory of the read path.", _one(found["cache_bytes"])
    yield "cache_limit_bytes", "gauge", "Limit of it now.", _one(found["cache_limit_bytes"])
    processes = {who: found[f"{who}_resident_bytes"] for who in ("daemon", "worker", "fetcher")}
    yield (
        *("resident_memory_bytes", "gauge", "Resident memory of the mount's processes."),
        _by("process", {who: size for who, size in processes.items() if size is not None}),
    )
    limit = found["memory_limit_bytes"]
    yield "memory_limit_bytes", "gauge", "Limit for all processes.", _one(limit)
    pressure = found["memory_pressure"]
    yield (
        *("memory_pressure_ratio", "gauge", "Share of the last 10 s that waited for memory."),
        _one(None if pressure is None else pressure / 100),
    )


def _one(value: float | None, labels: _Labels | None = None) -> Sequence[_Sample]:
    return [] if value is None else [("", labels or {}, value)]


def _by(label: str, values: Mapping[str, float]) -> Sequence[_Sample]:
    return [("", {label: name}, value) for name, value in values.items()]


def _times(kind: str, times: Mapping[str, Any]) -> Iterator[_Sample]:
    buckets: Buckets = times["buckets"]
    for bound_us in BOUNDS_US:
        within = sum(count for end_us, count in buckets if end_us <= bound_us)
        yield "_bucket", {"kind": kind, "le": repr(bound_us / 1e6)}, within
    yield "_bucket", {"kind": kind, "le": "+Inf"}, times["count"]
    yield "_sum", {"kind": kind}, times["total_us"] / 1e6
    yield "_count", {"kind": kind}, times["count"]


def _braced(labels: _Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    # Names come from packs: an invalid one, or one with a line break, would spoil all metrics.
    return printable(value).replace("\\", r"\\").replace('"', r"\"")
