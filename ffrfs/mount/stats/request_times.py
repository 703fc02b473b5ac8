"""How long requests took: the histograms of a mount, and what can be told from them.

An engine counts its requests in buckets (native/stats/request_times.h). Here and in
`ffrfs stats --json` buckets are pairs of a bucket's end and its count, the empty ones left
out: so who looks at them need not know how they are cut.

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

Buckets = Sequence[tuple[float, int]]  # (end in µs, count), the shortest first


def buckets_of(histogram: Iterable[int]) -> list[tuple[float, int]]:
    """The buckets of an engine's row that are not empty."""
    return [(_end_ns(bucket) / 1000, count) for bucket, count in enumerate(histogram) if count]


def percentile_us(buckets: Buckets, percent: int) -> float | None:
    """The time within which so many of a hundred were answered; None: there were none.

    It is the end of a bucket, so it is too long by a quarter or 0.256 µs at most; what
    took longer than the last bucket's begin, 60 s, is shown as its end, 69 s.
    """
    left = -(-sum(count for _, count in buckets) * percent // 100)
    for end_us, count in buckets:
        left -= count
        if left <= 0:
            return end_us
    return None


def difference(before: Buckets, after: Buckets) -> list[tuple[float, int]]:
    """What was counted between two looks at the same buckets."""
    counts = dict(before)
    new = ((end_us, count - counts.get(end_us, 0)) for end_us, count in after)
    return [(end_us, count) for end_us, count in new if count > 0]


def _end_ns(bucket: int) -> int:
    if bucket < 4:
        return (bucket + 1) * _UNIT_NS
    e = bucket // 4 - 1
    return ((bucket - 4 * e + 1) << e) * _UNIT_NS
