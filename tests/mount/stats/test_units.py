"""Numbers in few characters."""

from __future__ import annotations

import pytest

from ffrfs.mount.stats import units


def test_numbers() -> None:
    assert [units.megabytes(value) for value in (None, 0, 5, 312.44e6, 1.5e9)] == [
        *("-", "0", "<0.1", "312.4", "1,500")
    ]
    assert [units.number(value) for value in (None, 0, 0.26, 8123.4)] == ["-", "0", "0.3", "8,123"]
    assert [units.size(value) for value in (None, 0, 999, 1000, 65e6, 230e6, 5e18)] == [
        *("-", "0 B", "999 B", "1.0 KiB", "62.0 MiB", "219 MiB", "4.3 EiB")
    ]
    assert [units.time(value) for value in (None, 0.3, 33, 1234, 123_456, 1.25e6)] == [
        *("-", "1 us", "33 us", "1.2 ms", "123 ms", "1.2 s")
    ]
    assert [units.percent(value) for value in (None, 0, 0.999, 1)] == ["-", "0%", "99%", "100%"]
    assert [units.age(value) for value in (None, 5, 65, 3700, 90_000)] == [
        *("-", "5s", "1m05s", "1h01m", "1d01h")
    ]


@pytest.mark.parametrize("time_us", [0, 999.9, 99_949, 99_999, 999_999, 1e6, 69e6])
def test_times_are_short(time_us: float) -> None:
    assert len(units.time(time_us)) <= 7


@pytest.mark.parametrize("size_bytes", [999.9, 99.99 * 1024, 999.9 * 1024, 999.9 * (1 << 40)])
def test_sizes_are_short(size_bytes: float) -> None:
    assert len(units.size(size_bytes)) <= 8
