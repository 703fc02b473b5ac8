"""The activity of a mount between two answers of its statistics (`ffrfs stats --json`).

No state; any thread. All methods raise KeyError or TypeError for another version's
statistics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ffrfs.mount.stats.request_times import difference, percentile_us

Statistics = Mapping[str, Any]


@dataclass(frozen=True)
class Times:
    """The times of the requests of one kind in an interval."""

    per_s: float
    p50_us: float | None  # None: there were none
    p99_us: float | None


class StatsDelta:
    """The changes since `before`; without it, or if it is an earlier mount's, since mounting."""

    def __init__(self, before: Statistics | None, after: Statistics) -> None:
        if before is not None and (
            before["daemon_pid"] != after["daemon_pid"] or before["age_s"] >= after["age_s"]
        ):
            before = None
        self._before = before
        self._after = after
        # By the daemon's clock, so that slow answers do not count.
        self.time_s: float = after["age_s"] - (before["age_s"] if before else 0)
        self.is_since_mount = before is None

    def has(self, name: str) -> bool:
        """Return whether both answers have the field; some mounts lack some fields."""
        return all(
            each.get(name) is not None for each in (self._before, self._after) if each is not None
        )

    def growth(self, *names: str) -> float:
        """Return the growth of the number at the path `names`."""
        return _at(self._after, names) - (_at(self._before, names) if self._before else 0)

    def per_s(self, *names: str) -> float:
        return self.growth(*names) / self.time_s if self.time_s else 0.0

    def times(self, kind: str) -> Times:
        buckets = self._buckets(kind)
        return Times(
            per_s=self.per_s("requests", kind, "count"),
            p50_us=percentile_us(buckets, 50),
            p99_us=percentile_us(buckets, 99),
        )

    def all_times(self) -> Times:
        """Return the times of the requests of all kinds together."""
        counts: Counter[float] = Counter()
        for kind in self.active_kinds():
            counts.update(dict(self._buckets(kind)))
        buckets = sorted(counts.items())
        return Times(
            per_s=self.per_s("request_count"),
            p50_us=percentile_us(buckets, 50),
            p99_us=percentile_us(buckets, 99),
        )

    def active_kinds(self) -> list[str]:
        """Return the kinds of which there were requests."""
        return [k for k in self._after["requests"] if self.growth("requests", k, "count") > 0]

    def _buckets(self, kind: str) -> list[tuple[float, int]]:
        before = self._before["requests"][kind]["buckets"] if self._before else []
        return difference(before, self._after["requests"][kind]["buckets"])


def _at(statistics: Statistics, names: tuple[str, ...]) -> float:
    value: Any = statistics
    for name in names:
        value = value[name]
    return float(value)
