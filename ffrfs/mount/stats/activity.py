"""The numbers of a mount: those of one answer of its daemon, and the activity between two answers.

Everything that shows numbers as they change takes them from here. An answer (`ffrfs stats
--json`) may be another version's or, for root, a hostile user's. So its numbers are checked
first: one that is not a number of a sensible size raises one of BAD_ANSWER, and is never shown.

No state; any thread.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ffrfs.mount.stats.request_times import KINDS, Buckets, difference, percentile_us

BAD_ANSWER = (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError)

_NUMBER_MAX = 1e18
_NUMBERS = (
    *("age_s", "threads", "request_count", "reads", "bytes_served"),
    *("bytes_memory", "bytes_page_cache", "bytes_storage"),
    *("checksums_verified", "checksums_failed", "queue_depth"),
    *("cache_bytes", "cache_limit_bytes", "resident_bytes"),
)
# A mount without a limit or without a fetcher, or an older version, lacks some of these.
_OPTIONAL = ("memory_limit_bytes", "memory_pressure", "unreadable_files", "daemon_starts")
_GROUPS = {
    "prefetch": ("fetched", "pushed", "hit", "late", "wasted_bytes"),
    "readahead": ("fetched", "pushed", "hit", "wasted_bytes"),
    "read_around": ("pushed", "unread_bytes"),
    "worker": ("deaths",),
    "remote": (
        *("bytes", "blocks_hit", "blocks_fetched", "retries", "throttled", "errors"),
        *("cache_bytes", "cache_limit_bytes"),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The checked numbers of one answer."""

    engine: str
    transport: str | None  # None: an older version does not have it
    daemon_pid: float
    numbers: Mapping[str, float]  # "bytes_served", "prefetch.hit"; an unknown one is missing
    buckets: Mapping[str, Buckets]  # for each kind of request

    @property
    def ways(self) -> list[str]:
        """The transport that serves the mount, and the engine if it is not the usual one."""
        transport = [f"transport {self.transport}"] if self.transport else []
        return transport + ([] if self.engine == "native" else [f"engine {self.engine}"])

    def __getitem__(self, name: str) -> float:
        """Return the number, or 0 if it is unknown."""
        return self.numbers.get(name, 0.0)


@dataclass(frozen=True, kw_only=True)
class Times:
    """The times of requests in an interval."""

    per_s: float
    p50_us: float | None  # None: there were none
    p99_us: float | None
    slowest_us: float | None


NO_REQUESTS = Times(per_s=0.0, p50_us=None, p99_us=None, slowest_us=None)


@dataclass(frozen=True, kw_only=True)
class Activity:
    """The activity of a mount in an interval."""

    begin_s: float  # by the monotonic clock of this machine
    end_s: float
    time_s: float  # by the clock of the daemon, so that slow answers do not count
    is_since_mount: bool
    growth: Mapping[str, float]  # of numbers of the answers
    times: Times  # of all requests
    kinds: Mapping[str, Times]  # only kinds with requests

    def per_s(self, name: str) -> float:
        return self.growth.get(name, 0.0) / self.time_s if self.time_s else 0.0

    @property
    def hit(self) -> float | None:
        """Return the share of the served bytes that readers got without waiting for storage.

        Bytes that were not in memory were read, from the page cache or from storage. These
        two are counted in whole records, so only their proportion is used. None: no bytes.
        """
        served, memory = self.growth["bytes_served"], self.growth["bytes_memory"]
        at_once, waited = self.growth["bytes_page_cache"], self.growth["bytes_storage"]
        if not served:
            return None
        missed = max(served - memory, 0)
        return 1 - missed / served * (waited / (at_once + waited) if waited else 0)

    def share(self, part: str, *others: str) -> float | None:
        """Return how much `part` grew, as a share of itself and the others together."""
        whole = sum(self.growth.get(name, 0.0) for name in (part, *others))
        return self.growth.get(part, 0.0) / whole if whole else None


def read_answer(answer: Mapping[str, Any]) -> Answer:
    transport = answer.get("transport")
    requests = {kind: answer["requests"][kind] for kind in KINDS if kind in answer["requests"]}
    return Answer(
        engine=str(answer["engine"]),
        transport=None if transport is None else str(transport),
        daemon_pid=_checked(answer["daemon_pid"]),
        numbers=dict(_numbers(answer)),
        buckets={
            kind: [(_checked(end_us), int(_checked(count))) for end_us, count in times["buckets"]]
            for kind, times in requests.items()
        },
    )


def activity(
    before: Answer | None, after: Answer, begin_s: float = 0.0, end_s: float = 0.0
) -> Activity:
    """Return the activity since `before`; without it, or if it is an earlier mount's, all."""
    if before is not None and not _is_same_mount(before, after):
        before = None
    time_s = after["age_s"] - (before["age_s"] if before else 0)
    growth = {
        name: max(number - (before.numbers[name] if before else 0), 0)
        for name, number in after.numbers.items()
        if before is None or name in before.numbers
    }
    new = {
        kind: difference(before.buckets.get(kind, ()) if before else (), buckets)
        for kind, buckets in after.buckets.items()
    }
    together: Counter[float] = Counter()
    for buckets in new.values():
        together.update(dict(buckets))
    found = Activity(
        begin_s=begin_s,
        end_s=end_s,
        time_s=time_s,
        is_since_mount=before is None,
        growth=growth,
        times=_times(sorted(together.items()), time_s),
        kinds={kind: _times(buckets, time_s) for kind, buckets in new.items() if buckets},
    )
    for name in growth:
        _checked(found.per_s(name))
    return found


def by_second(
    activities: Sequence[Activity],
    value: Callable[[Activity], float | None],
    now_s: float,
    count: int,
) -> list[float | None]:
    """Return the value in each of the last `count` seconds; None: unknown.

    A second has the value of the activity that covers its middle, so a value stays the same
    while it moves to the left. A short interval that covers none (the first one, one that the
    user requested) counts at its end, if it is the largest there.
    """
    found: dict[int, float] = {}
    for one in activities:
        known = value(one)
        if known is not None:
            last = math.floor(one.end_s - 0.5)
            seconds = range(math.floor(one.begin_s - 0.5) + 1, last + 1)
            for second in seconds or (math.floor(one.end_s),):
                found[second] = max(known, found.get(second, 0.0))
    last = math.floor(now_s - 0.5)
    return [found.get(second) for second in range(last - count + 1, last + 1)]


def _is_same_mount(before: Answer, after: Answer) -> bool:
    """Return whether one daemon gave both answers, or a later daemon of the mount the second."""
    goes_on = after["daemon_starts"] > before["daemon_starts"]
    return before["age_s"] < after["age_s"] and (before.daemon_pid == after.daemon_pid or goes_on)


def _numbers(answer: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name in _NUMBERS:
        yield name, _checked(answer[name])
    for name in _OPTIONAL:
        if answer.get(name) is not None:
            yield name, _checked(answer[name])
    for group, names in _GROUPS.items():
        for name in names:
            if (value := (answer.get(group) or {}).get(name)) is not None:
                yield f"{group}.{name}", _checked(value)


def _times(buckets: Buckets, time_s: float) -> Times:
    count = sum(count for _, count in buckets)
    return Times(
        per_s=_checked(count / time_s) if time_s else 0.0,
        p50_us=percentile_us(buckets, 50),
        p99_us=percentile_us(buckets, 99),
        slowest_us=percentile_us(buckets, 100),
    )


def _checked(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("not a number")
    if not math.isfinite(value) or abs(value) > _NUMBER_MAX:
        raise ValueError("not a number of anything")
    return float(value)
