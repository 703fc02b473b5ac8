"""ValueCounts is exact for few different values; for more, its error and memory are bounded."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs.schema import value_counts
from ffrfs.schema.value_counts import COUNTED_MAX, LABEL_MAX, SKETCH_SIZE, ValueCounts

VALUES = st.lists(st.binary(max_size=3) | st.text(max_size=2).map(str.encode), max_size=40)


def of(*parts: list[bytes]) -> ValueCounts:
    found = ValueCounts()
    for part in parts:
        found.add(part)
    return found


def merged(*parts: ValueCounts) -> ValueCounts:
    found = ValueCounts()
    for part in parts:
        found.merge(part)
    return found


def is_text(value: bytes) -> bool:
    return value.decode(errors="replace").encode() == value


@given(st.lists(VALUES, max_size=5))
def test_counts_of_few_values_are_exact(parts: list[list[bytes]]) -> None:
    values = [value for part in parts for value in part]
    for found in (of(*parts), merged(*map(of, parts))):
        assert found.counts == Counter(filter(is_text, values))
        assert found.unique == len(set(values))
        assert found.invalid_count == sum(not is_text(value) for value in values)
        assert found.error == 0


def test_long_values() -> None:
    long = b"x" * LABEL_MAX
    found = of([long, long + b"x", long + b"y", long + b"y", b"\xff" * 2 * LABEL_MAX])
    assert found.counts == Counter([long])
    assert (found.large_count, found.invalid_count, found.unique) == (3, 1, 4)


def stream(count: int) -> list[bytes]:
    """Return values of which every second is one of ten, and each of the others comes once."""
    return [b"often %d" % (i % 20) if i % 2 == 0 else b"once %d" % i for i in range(count)]


@pytest.mark.long
@pytest.mark.parametrize("step", [5_000, 100_000])
def test_many_values(step: int) -> None:
    values = stream(400_000)
    parts = [values[at : at + step] for at in range(0, len(values), step)]
    for found in (of(*parts), merged(*map(of, parts))):
        assert len(found.counts) <= COUNTED_MAX
        assert found.error <= len(values) / (COUNTED_MAX / 2)
        true = Counter(values)
        for value, count in found.counts.items():
            assert true[value] - found.error <= count <= true[value]
        assert {value for value, _ in found.counts.most_common(10)} == {
            b"often %d" % i for i in range(0, 20, 2)
        }
        assert found.unique == pytest.approx(200_010, rel=0.04)  # five standard errors


def test_unique_does_not_depend_on_the_order_of_parts() -> None:
    parts = [of(stream(200_000)), of([b"%d" % i for i in range(60_000)]), of([b"a", b"\xff"])]
    assert merged(*parts).unique == merged(*parts[::-1]).unique


def test_memory_of_long_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_counts, "COUNTED_SIZE_MAX", 100_000)
    found = of(*[[b"%01000d" % (i * 100 + k) for k in range(100)] for i in range(10)])
    assert sum(map(len, found.counts)) <= 100_000
    assert found.unique == 1000
    often = [b"%01000d" % k for k in range(110)] * 2
    found = of(often + [b"%d" % k for k in range(1000)])
    assert sum(map(len, found.counts)) <= 100_000


def test_unique_of_repeated_values_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_counts, "COUNTED_SIZE_MAX", 200_000)
    values = [b"%d" % i for i in range(SKETCH_SIZE + 3000)]
    for found in (of(*[values] * 3), merged(*[of(values)] * 3)):
        assert found.unique == len(values)


def test_merging_does_not_change_its_argument() -> None:
    other = of(stream(150_000))
    before = (dict(other.counts), other.unique, other.error)
    merged(other, other)
    assert (dict(other.counts), other.unique, other.error) == before
