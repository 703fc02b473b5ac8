"""Figures out of the answers of daemons, of which some may lie."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs.mount.daemon.statistics import counted
from ffrfs.mount.engines.counter_page import Counters
from ffrfs.mount.stats.activity import BAD_ANSWER, Holdings, Sample, holdings, sample
from ffrfs.mount.stats.stats_delta import StatsDelta


def answer(age_s: float, counters: Counters | None = None) -> dict[str, Any]:
    """As `ffrfs stats --json` has it."""
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


def between(**counters: int) -> Sample:
    """In two seconds."""
    after = answer(12, {name: [value] for name, value in counters.items()})
    return sample(StatsDelta(answer(10), after), 100, 102)


def test_transport() -> None:
    assert holdings(answer(1) | {"transport": "uring"}).transport == "uring"
    assert holdings(answer(1)).transport is None  # a daemon of an older version


def test_cache_of_blocks() -> None:
    remote = {"cache_bytes": 3 << 30, "cache_limit_bytes": 20 << 30}
    for sent, expected in ((remote, (3 << 30, 20 << 30)), (None, (0, 0)), ({}, (0, 0))):
        found = holdings(answer(1) | {"remote": sent})
        assert (found.block_cache_bytes, found.block_cache_limit_bytes) == expected


def test_rates() -> None:
    found = between(bytes_served=3000, bytes_memory=1000, prefetch_late=4)
    assert (found.begin_s, found.end_s) == (100, 102)
    assert (found.bytes_per_s, found.requests_per_s) == (1500, 0)
    assert (found.p50_us, found.p99_us, found.kinds) == (None, None, {})
    assert found.sources == {"memory": 500, "page cache": 0, "storage": 0}
    assert found.ahead == {
        "prefetch": {"fetched": 0, "pushed": 0, "hit": 0, "late": 2},
        "readahead": {"fetched": 0, "pushed": 0, "hit": 0},
        "read_around": {"pushed": 0},
    }


def test_what_was_fetched() -> None:
    assert between().remote == {}
    fields = ("bytes", "blocks_hit", "blocks_fetched", "retries", "throttled", "errors")
    before = answer(10) | {"remote": dict.fromkeys(fields, 1)}
    after = answer(12) | {"remote": {name: 1 + 2 * n for n, name in enumerate(fields)}}
    found = sample(StatsDelta(before, after), 100, 102).remote
    assert list(found.items()) == [(name, n) for n, name in enumerate(fields)]
    assert sample(StatsDelta(answer(10), after), 100, 102).remote == {}


@pytest.mark.parametrize(
    ("memory", "page_cache", "storage", "hit"),
    [
        (1000, 0, 0, 1),
        (1000, 0, 5000, 1),  # read ahead
        (0, 1000, 0, 1),
        (0, 0, 1000, 0),
        (0, 8000, 8000, 0.5),  # whole records, of which a part was wanted
        (500, 0, 4000, 0.5),
        (5000, 0, 1000, 1),  # more than was served: counted a moment earlier
    ],
)
def test_hit_rate_is_what_did_not_wait(
    memory: int, page_cache: int, storage: int, hit: float
) -> None:
    found = between(
        bytes_served=1000, bytes_memory=memory, bytes_page_cache=page_cache, bytes_storage=storage
    )
    assert found.hit == pytest.approx(hit)


def test_no_bytes_have_no_hit_rate() -> None:
    assert between(bytes_storage=1000).hit is None


def test_counters_that_fall_are_no_rates() -> None:
    found = sample(StatsDelta(answer(10, {"bytes_served": [9]}), answer(12)), 100, 102)
    assert found.bytes_per_s == 0


def paths_in(value: object) -> list[tuple[str | int, ...]]:
    """Where there are values in it, at any depth."""
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
def test_a_lie_is_refused_or_harmless(where: tuple[str | int, ...], lie: object) -> None:
    told: Any = copy.deepcopy(HONEST)
    inside = told
    for key in where[:-1]:
        inside = inside[key]
    inside[where[-1]] = lie
    for before, after in ((answer(10), told), (told, HONEST)):
        try:
            found = [holdings(after), sample(StatsDelta(before, after), 0, 1)]
        except BAD_ANSWER:
            continue
        check_drawable(found)


def check_drawable(found: list[Holdings | Sample]) -> None:
    for each in found:
        text = json.dumps(vars(each), default=vars)  # all of it can be looked at
        assert text
        for value in vars(each).values():
            if isinstance(value, float | int):
                assert math.isfinite(value)
                assert abs(value) <= 1e18


def test_an_answer_of_an_older_version_is_understood() -> None:
    assert holdings(answer(5)).unreadable_files == 0
    assert holdings(answer(5) | {"unreadable_files": 3}).unreadable_files == 3
