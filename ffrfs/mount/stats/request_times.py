"""The times of requests: the histograms of a mount, and percentiles from them.

An engine counts its requests in buckets (native/stats/request_times.h). Here and in
`ffrfs stats --json` buckets are pairs of a bucket's end and its count, without the empty
ones: so readers need not know the rule of the buckets.

No state; any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# native/stats/request_times.h: the kinds, and the rule of the buckets.
KINDS = (
    *("lookup", "getattr", "readlink", "open", "read", "release", "opendir", "readdir"),
    *("releasedir", "statfs", "getxattr", "listxattr", "refuse"),
)
BUCKET_COUNT = 108
_UNIT_NS = 256
_SLOW_US = (1 << 30) / 1000  # such requests are logged

Buckets = Sequence[tuple[float, int]]  # (end in µs, count), shortest first


def buckets_of(histogram: Iterable[int]) -> list[tuple[float, int]]:
    """Return the buckets of an engine's row that are not empty."""
    return [(_end_ns(bucket) / 1000, count) for bucket, count in enumerate(histogram) if count]


def percentile_us(buckets: Buckets, percent: int) -> float | None:
    """Return the time within which `percent` of the requests were answered, or None if none were.

    It is the end of a bucket, so it is too long by a quarter or 0.256 µs at most; times
    beyond the begin of the last bucket, 60 s, give its end, 69 s.
    """
    left = -(-sum(count for _, count in buckets) * percent // 100)
    for end_us, count in buckets:
        left -= count
        if left <= 0:
            return end_us
    return None


def slow_count(buckets: Buckets) -> int:
    """Return the number of requests that took about a second or longer."""
    return sum(count for end_us, count in buckets if end_us > _SLOW_US)


def difference(before: Buckets, after: Buckets) -> list[tuple[float, int]]:
    """Return the counts between two states of the same buckets."""
    counts = dict(before)
    new = ((end_us, count - counts.get(end_us, 0)) for end_us, count in after)
    return [(end_us, count) for end_us, count in new if count > 0]


def _end_ns(bucket: int) -> int:
    if bucket < 4:
        return (bucket + 1) * _UNIT_NS
    e = bucket // 4 - 1
    return ((bucket - 4 * e + 1) << e) * _UNIT_NS
