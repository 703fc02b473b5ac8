"""What a mount did between two looks at its statistics."""

from __future__ import annotations

import pytest

from ffrfs.mount.stats.stats_delta import StatsDelta


def looks(age_s: float, buckets: list[list[float]], pid: int = 1) -> dict[str, object]:
    count = sum(count for _, count in buckets)
    return {
        **{"age_s": age_s, "daemon_pid": pid, "reads": 10 * age_s},
        "requests": {"read": {"count": count, "buckets": buckets}},
    }


def test_interval_is_what_two_looks_differ_in() -> None:
    before = looks(10, [[5.0, 100], [80.0, 1]])
    after = looks(12, [[5.0, 100], [40.0, 98], [80.0, 1], [900.0, 2]])
    interval = StatsDelta(before, after)
    times = interval.times("read")
    assert (times.per_s, times.p50_us, times.p99_us) == (50, 40.0, 900.0)
    assert (interval.time_s, interval.per_s("reads"), interval.is_since_mount) == (2, 10, False)
    assert StatsDelta(after, looks(13, [[5.0, 100]])).times("read").p50_us is None


@pytest.mark.parametrize("later", [looks(5, [[5.0, 10]]), looks(20, [[5.0, 10]], pid=2)])
def test_interval_of_another_mount_is_all_of_its_time(later: dict[str, object]) -> None:
    interval = StatsDelta(looks(10, [[5.0, 100]]), later)
    assert interval.is_since_mount
    assert interval.growth("requests", "read", "count") == 10


def test_kinds_together() -> None:
    before, after = looks(10, [[5.0, 100]]), looks(12, [[5.0, 150]])
    after["requests"] |= {  # type: ignore[operator]
        "lookup": {"count": 50, "buckets": [[5.0, 48], [900.0, 2]]},
        "open": {"count": 0, "buckets": []},
    }
    before["requests"] |= {  # type: ignore[operator]
        kind: {"count": 0, "buckets": []} for kind in ("lookup", "open")
    }
    before["request_count"], after["request_count"] = 100, 200
    delta = StatsDelta(before, after)
    times = delta.all_times()
    assert delta.active_kinds() == ["read", "lookup"]
    assert (times.per_s, times.p50_us, times.p99_us) == (50, 5.0, 900.0)
