"""Numbers from the answers of daemons, some of which may lie."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs.mount.daemon.statistics import counted
from ffrfs.mount.engines.counter_page import Counters
from ffrfs.mount.stats.activity import BAD_ANSWER, Activity, Times, activity, by_second, read_answer


def answer(age_s: float, counters: Counters | None = None) -> dict[str, Any]:
    """Return an answer as `ffrfs stats --json` prints it."""
    return {
        "engine": "native",
        "threads": 2,
        "daemon_pid": 1,
        "age_s": age_s,
        **counted(counters or {}),
        "cache_limit_bytes": 100,
        "memory_limit_bytes": None,
        "memory_pressure": None,
        "resident_bytes": 1000,
    }


def between(before: dict[str, Any], after: dict[str, Any]) -> Activity:
    return activity(read_answer(before), read_answer(after), 100, 102)


def growing(**counters: int) -> Activity:
    """Return the activity of two seconds in which these counters grow."""
    return between(answer(10), answer(12, {name: [value] for name, value in counters.items()}))


def test_transport() -> None:
    assert read_answer(answer(1) | {"transport": "uring"}).transport == "uring"
    assert read_answer(answer(1)).transport is None  # a daemon of an older version


def test_fields_missing_from_an_answer_are_zero() -> None:
    for lacks in ({}, {"remote": None}, {"remote": {}}, {"memory_pressure": None}):
        found = read_answer(answer(1) | lacks)
        assert (found["remote.cache_bytes"], found["memory_pressure"]) == (0, 0)
    assert read_answer(answer(1) | {"remote": {"cache_bytes": 3 << 30}})["remote.cache_bytes"] == (
        3 << 30
    )
    assert read_answer(answer(5))["unreadable_files"] == 0  # an older version
    assert read_answer(answer(5) | {"unreadable_files": 3})["unreadable_files"] == 3


def test_rates() -> None:
    found = growing(bytes_served=3000, bytes_memory=1000, prefetch_late=4)
    assert (found.begin_s, found.end_s, found.time_s) == (100, 102, 2)
    assert found.kinds == {}
    assert found.times == Times(per_s=0, p50_us=None, p99_us=None, slowest_us=None)
    rates = {name: found.per_s(name) for name in found.growth if found.per_s(name)}
    assert rates.pop("age_s") == 1
    assert rates == {"bytes_served": 1500, "bytes_memory": 500, "prefetch.late": 2}


def test_rates_of_the_fetcher() -> None:
    fields = ("bytes", "blocks_hit", "blocks_fetched", "retries", "throttled", "errors")
    before = answer(10) | {"remote": dict.fromkeys(fields, 1)}
    after = answer(12) | {"remote": {name: 1 + 2 * n for n, name in enumerate(fields)}}
    found = between(before, after)
    assert [found.per_s(f"remote.{name}") for name in fields] == [*range(6)]
    assert found.share("remote.blocks_hit", "remote.blocks_fetched") == pytest.approx(1 / 3)
    found = between(answer(10), after)  # there was no fetcher before
    assert found.per_s("remote.bytes") == 0
    assert found.share("remote.blocks_hit", "remote.blocks_fetched") is None


@pytest.mark.parametrize(
    ("memory", "page_cache", "storage", "hit"),
    [
        (1000, 0, 0, 1),
        (1000, 0, 5000, 1),  # storage was read ahead
        (0, 1000, 0, 1),
        (0, 0, 1000, 0),
        (0, 8000, 8000, 0.5),  # whole records were read, but only a part was wanted
        (500, 0, 4000, 0.5),
        (5000, 0, 1000, 1),  # more than was served: memory is counted a moment earlier
    ],
)
def test_hit_rate_is_the_share_read_without_waiting(
    memory: int, page_cache: int, storage: int, hit: float
) -> None:
    found = growing(
        bytes_served=1000, bytes_memory=memory, bytes_page_cache=page_cache, bytes_storage=storage
    )
    assert found.hit == pytest.approx(hit)


def test_no_hit_rate_if_no_bytes_were_served() -> None:
    assert growing(bytes_storage=1000).hit is None


def test_decreasing_counters_give_a_rate_of_zero() -> None:
    found = between(answer(10, {"bytes_served": [9]}), answer(12))
    assert found.per_s("bytes_served") == 0


def with_reads(age_s: float, buckets: list[list[float]], pid: int = 1) -> dict[str, Any]:
    return answer(age_s) | {"daemon_pid": pid, "requests": {"read": {"buckets": buckets}}}


def test_times_of_an_interval() -> None:
    before = with_reads(10, [[5.0, 100], [80.0, 1]])
    after = with_reads(12, [[5.0, 100], [40.0, 98], [80.0, 1], [900.0, 2]])
    found = between(before, after)
    assert found.kinds["read"] == Times(per_s=50, p50_us=40.0, p99_us=900.0, slowest_us=900.0)
    assert not found.is_since_mount
    assert between(after, with_reads(13, [[5.0, 100]])).kinds == {}


@pytest.mark.parametrize("later", [with_reads(5, [[5.0, 10]]), with_reads(20, [[5.0, 10]], pid=2)])
def test_interval_after_a_new_mount_covers_its_whole_age(later: dict[str, Any]) -> None:
    found = between(with_reads(10, [[5.0, 100]]), later)
    assert found.is_since_mount
    assert found.kinds["read"].per_s * found.time_s == 10


def test_interval_continues_with_the_next_daemon() -> None:
    before = with_reads(10, [[5.0, 100]])
    after = with_reads(12, [[5.0, 150]], pid=2) | {"daemon_starts": 1}
    found = between(before, after)
    assert not found.is_since_mount
    assert found.kinds["read"].per_s == 25


def test_times_of_all_request_kinds_together() -> None:
    before, after = with_reads(10, [[5.0, 100]]), with_reads(12, [[5.0, 150]])
    before["requests"]["lookup"] = {"buckets": []}
    after["requests"] |= {
        "lookup": {"buckets": [[5.0, 48], [900.0, 2]]},
        "open": {"buckets": []},
        "\x1b[31m": {"buckets": [[5.0, 1]]},  # no kind of request: must not reach a terminal
    }
    found = between(before, after)
    assert list(found.kinds) == ["lookup", "read"]
    assert found.times == Times(per_s=50, p50_us=5.0, p99_us=900.0, slowest_us=900.0)


def paths_in(value: object) -> list[tuple[str | int, ...]]:
    """Return the paths to all values inside `value`, at any depth."""
    inside: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    return [(key, *rest) for key, each in inside for rest in [(), *paths_in(each)]]


HONEST = answer(12, {"request.read": [0, 3, 1], "bytes_served": [9]})
LIES = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=3),
    st.floats(),
    st.integers(min_value=-(10**400), max_value=10**400),
    st.lists(st.one_of(st.none(), st.floats(), st.lists(st.floats(), max_size=3)), max_size=3),
    st.dictionaries(st.text(max_size=3), st.none(), max_size=2),
)


@pytest.mark.long
@given(where=st.sampled_from(paths_in(HONEST)), lie=LIES)
def test_hostile_answer_is_refused_or_harmless(where: tuple[str | int, ...], lie: object) -> None:
    told: Any = copy.deepcopy(HONEST)
    inside = told
    for key in where[:-1]:
        inside = inside[key]
    inside[where[-1]] = lie
    for before, after in ((answer(10), told), (told, HONEST)):
        try:
            found, done = read_answer(after), between(before, after)
        except BAD_ANSWER:
            continue
        for each in (found, done):
            # All values are plain finite data.
            assert json.dumps(vars(each), default=vars, allow_nan=False)
        assert all(0 <= done.per_s(name) <= 1e18 for name in done.growth)


def did(begin_s: float, end_s: float, bytes_per_s: float) -> Activity:
    grown = {"bytes_served": bytes_per_s}
    read = Times(per_s=0, p50_us=None, p99_us=None, slowest_us=None)
    return Activity(
        begin_s=begin_s,
        end_s=end_s,
        time_s=1,
        is_since_mount=False,
        growth=grown,
        times=read,
        kinds={},
    )


def seconds(*done: Activity, now_s: float, count: int = 5) -> list[float | None]:
    return by_second(done, lambda one: one.per_s("bytes_served"), now_s, count)


def test_each_second_has_the_value_of_its_middle() -> None:
    done = [did(9.9, 10.9, 1), did(10.9, 12.0, 2), did(12.0, 13.1, 3)]
    assert seconds(*done, now_s=13.1) == [None, None, 1, 2, 3]
    assert seconds(*done, now_s=14.6) == [1, 2, 3, None, None]


def test_late_answer_covers_the_seconds_before_it() -> None:
    assert seconds(did(10, 13, 7), now_s=13, count=4) == [None, 7, 7, 7]


def test_a_short_sample_is_not_lost() -> None:
    done = [did(10.0, 10.9, 1), did(10.9, 11.2, 9), did(11.2, 12.2, 2)]
    assert seconds(*done, now_s=12.6, count=3) == [1, 9, None]


def test_seconds_without_any_sample_are_none() -> None:
    assert seconds(now_s=10) == [None] * 5
