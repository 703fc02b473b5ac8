"""Quantiles are exact for few different numbers; for more, the promised error holds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ffrfs.schema.histograms import equal_counts, equal_widths
from ffrfs.schema.quantiles import EXACT_MAX, LEVEL_SIZE, Quantiles

NUMBERS = st.floats(allow_nan=False, width=32)


def of(*parts: Any) -> Quantiles:
    found = Quantiles()
    for part in parts:
        found.add(np.asarray(part, dtype=np.float64))
    return found


def merged(*parts: Quantiles) -> Quantiles:
    found = Quantiles()
    for part in parts:
        found.merge(part)
    return found


@given(st.lists(st.lists(NUMBERS, max_size=20), min_size=1, max_size=5))
def test_quantiles_of_few_numbers_are_exact(parts: list[list[float]]) -> None:
    numbers = sorted(number for part in parts for number in part)
    for found in (of(*parts), merged(*map(of, parts))):
        values, counts = found.samples()
        assert found.count == len(numbers)
        assert np.repeat(values, counts).tolist() == numbers
        if numbers:
            bounds, below = found.boundaries(4)
            assert (bounds[0], bounds[-1]) == (numbers[0], numbers[-1])
            for q, bound, under in zip((1, 2, 3), bounds[1:-1], below[1:-1], strict=True):
                # The least bound with more than q / 4 of the numbers at or below it.
                assert sum(number <= bound for number in numbers) == under > q / 4 * len(numbers)
                assert sum(number < bound for number in numbers) <= q / 4 * len(numbers)


def rank_error(found: Quantiles, numbers: Any) -> float:
    """Return the greatest error of a rank, as a share of all numbers."""
    numbers = np.sort(numbers)
    values, counts = found.samples()
    assert counts.sum() == len(numbers) == found.count
    places = np.linspace(numbers[0], numbers[-1], 999)
    ranks = np.concatenate([[0], np.cumsum(counts)])[np.searchsorted(values, places, "right")]
    return float(np.abs(ranks - np.searchsorted(numbers, places, "right")).max() / len(numbers))


def promised(count: int) -> float:
    return (1 + math.log2(count / LEVEL_SIZE)) / LEVEL_SIZE


def streams(count: int) -> dict[str, Any]:
    random = np.random.default_rng(7)
    return {
        "random": random.normal(size=count),
        "rising": np.arange(count, dtype=np.float64),
        "falling": np.arange(count, dtype=np.float64)[::-1],
        "saw": np.arange(count, dtype=np.float64) % 10_007,
        "heavy": np.where(random.random(count) < 0.7, 1.0, random.exponential(size=count)),
        "two halves": np.concatenate([np.zeros(count // 2), random.random(count - count // 2)]),
    }


@pytest.mark.parametrize("name", streams(1))
@pytest.mark.parametrize("step", [977, 60_000])
def test_ranks_of_many_numbers(name: str, step: int) -> None:
    numbers = streams(300_000)[name]
    parts = [numbers[at : at + step] for at in range(0, len(numbers), step)]
    for found in (of(*parts), merged(*map(of, parts))):
        assert rank_error(found, numbers) <= promised(len(numbers))
        assert sum(map(len, found.samples())) < 2 * 8 * LEVEL_SIZE
        assert (found.min, found.max) == (numbers.min(), numbers.max())


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1 << 32), st.lists(st.integers(1, 30_000), min_size=1, max_size=6))
def test_ranks_of_parts_of_any_size(seed: int, sizes: list[int]) -> None:
    random = np.random.default_rng(seed)
    parts = [np.round(random.normal(size=size), random.integers(0, 6)) for size in sizes]
    numbers = np.concatenate(parts)
    error = rank_error(merged(*map(of, parts)), numbers)
    assert error <= max(promised(max(len(numbers), LEVEL_SIZE)), 0)


def test_the_same_numbers_give_the_same_answer() -> None:
    parts = np.array_split(streams(100_000)["random"], 7)
    first, second = (merged(*map(of, parts)).boundaries(100)[0].tolist() for _ in range(2))
    assert first == second


def test_merging_does_not_change_its_argument() -> None:
    other = of(streams(50_000)["random"])
    before = [part.tolist() for part in other.samples()]
    merged(other, other, of([1.0]))
    assert [part.tolist() for part in other.samples()] == before


def test_exact_counts_become_levels_above_the_limit() -> None:
    found = of(np.arange(EXACT_MAX), np.arange(EXACT_MAX), [EXACT_MAX])  # one too many to be exact
    values, counts = found.samples()
    assert counts.sum() == 2 * EXACT_MAX + 1
    assert values[-1] == EXACT_MAX
    assert rank_error(found, np.concatenate([np.arange(EXACT_MAX)] * 2 + [[EXACT_MAX]])) <= 0.001


@given(st.lists(NUMBERS, min_size=1, max_size=200), st.integers(1, 12))
def test_histograms_count_every_number(numbers: list[float], count: int) -> None:
    found = of(numbers)
    for buckets in (equal_counts(found, count), equal_widths(found, count)):
        assert sum(bucket.mass for bucket in buckets) == pytest.approx(len(numbers))
        assert all(bucket.low <= bucket.high for bucket in buckets)
    finite = [number for number in numbers if math.isfinite(number)]
    for place, (low, high, mass) in enumerate(
        bucket for bucket in equal_widths(found, count) if math.isfinite(bucket.low)
    ):
        inside = sum(low < number <= high or (place == 0 and number == low) for number in finite)
        assert mass == inside
