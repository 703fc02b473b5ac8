"""How a fetcher's pace follows a server, on simulated lines of known speed."""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs.remote.pace import RANGE_BLOCKS_MAX, RANGES_FEW, RANGES_MAX, RANGES_MIN, Pace
from ffrfs.remote.protocol import BLOCK_SIZE


def run(pace: Pace, seconds: float, latency_s: float, one_rate: float, all_rate: float) -> float:
    """Return bytes per second on a line of that speed, with as many ranges as the pace allows."""
    pace.answered(latency_s)
    now, sent, free_at = 0.0, 0, 0.0
    flight: list[tuple[float, float, int]] = []  # (end, begin, size)
    while now < seconds:
        while len(flight) < pace.ranges_max:
            size = pace.range_blocks * BLOCK_SIZE
            free_at = max(free_at, now) + size / all_rate  # all ranges share this rate
            end = max(now + latency_s + size / one_rate, free_at + latency_s)
            heapq.heappush(flight, (end, now, size))
        now, begin, size = heapq.heappop(flight)
        sent += size
        pace.finished(now, size, now - begin, full=True)
    return sent / now


def test_ranges_are_added_while_the_rate_grows() -> None:
    pace = Pace()
    run(pace, 20, latency_s=0.05, one_rate=50e6, all_rate=1e12)
    assert pace.ranges_max == RANGES_MAX
    assert pace.range_blocks == RANGE_BLOCKS_MAX


def test_no_more_ranges_than_needed_to_fill_the_line() -> None:
    pace = Pace()
    rate = run(pace, 20, latency_s=0.02, one_rate=200e6, all_rate=200e6)
    assert pace.ranges_max <= RANGES_FEW * 3 // 2 + 1
    assert rate > 150e6


def test_ranges_of_a_slow_line_are_small() -> None:
    pace = Pace()
    run(pace, 60, latency_s=0.05, one_rate=1e6, all_rate=8e6)
    assert pace.range_blocks <= 2
    assert pace.gap_blocks == 0


def test_a_slow_line_has_few_ranges_at_a_time() -> None:
    """A block that a reader waits for shares the line with the ranges that are under way."""
    pace = Pace()
    pace.finished(2.0, BLOCK_SIZE, 2.0, full=False)  # a range of the index
    assert pace.ranges_max <= 5
    run(pace, 60, latency_s=0.05, one_rate=1e6, all_rate=0.5e6)
    assert pace.ranges_max * BLOCK_SIZE / 0.5e6 < 12
    pace = Pace()
    run(pace, 120, latency_s=0.05, one_rate=0.5e6, all_rate=0.5e6)
    assert pace.ranges_max * BLOCK_SIZE / 0.5e6 < 12


def test_a_server_that_asks_for_fewer_gets_fewer_for_a_while() -> None:
    pace = Pace()
    for _ in range(2):
        pace.throttled()
    assert pace.ranges_max == RANGES_FEW // 4
    for _ in range(10):
        pace.throttled()
    assert pace.ranges_max == RANGES_MIN
    run(pace, 20, latency_s=0.05, one_rate=50e6, all_rate=1e12)
    assert pace.ranges_max > RANGES_FEW


def test_a_gap_is_fetched_if_it_costs_less_than_a_round_trip() -> None:
    far, near = Pace(), Pace()
    run(far, 5, latency_s=0.1, one_rate=200e6, all_rate=1e12)
    run(near, 5, latency_s=0.0005, one_rate=200e6, all_rate=1e12)
    assert far.gap_blocks > near.gap_blocks == 0


@given(
    st.lists(
        st.tuples(
            st.floats(0, 100), st.integers(1, 8 * BLOCK_SIZE), st.floats(0, 100), st.booleans()
        )
    )
)
def test_limits_hold_for_any_measurements(found) -> None:
    pace = Pace()
    now = 0.0
    for passed, size, seconds, full in found:
        now += passed
        pace.finished(now, size, seconds, full)
        if not full:
            pace.throttled()
        assert RANGES_MIN <= pace.ranges_max <= RANGES_MAX
        assert 1 <= pace.range_blocks <= RANGE_BLOCKS_MAX
        assert pace.gap_blocks >= 0 and 0 <= pace.gather_s == pytest.approx(pace.gather_s)
