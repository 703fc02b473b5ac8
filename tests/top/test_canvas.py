"""Sparklines, meters, names and figures in few characters."""

from __future__ import annotations

import pytest

from ffrfs.mount.stats import units
from ffrfs.top.canvas import Canvas

UTF8, ASCII = Canvas("utf-8", 80, 24), Canvas("ascii", 80, 24)


def test_sparkline() -> None:
    assert UTF8.sparkline([None, 0, 1, 4, 7], 7) == " \u2581\u2582\u2585\u2588"
    assert ASCII.sparkline([None, 0, 1, 4, 7], 7) == " _.=#"
    assert UTF8.sparkline([0, 1e-9, 1e9], 1e9) == "\u2581\u2582\u2588"  # not 0, so not the lowest
    assert UTF8.sparkline([0, None], 0) == "\u2581 "
    assert UTF8.sparkline([], 0) == ""


@pytest.mark.parametrize(("share", "full"), [(0, 0), (0.5, 5), (1, 10), (7, 10), (-1, 0)])
def test_meter_has_its_width(share: float, full: int) -> None:
    assert ASCII.meter(share, 10) == ("#" * full, "." * (10 - full))


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("/mnt/data", 9, "/mnt/data"),
        ("/mnt/data", 5, "\u2026data"),
        ("/mnt/data", 1, "\u2026"),
        ("/mnt/data", 0, ""),
        ("/mnt/\u65e5\u672c", 5, "\u2026\u65e5\u672c"),  # two cells each
        ("/mnt/\u65e5\u672c", 4, "\u2026\u672c"),
        ("a\x1b[31m\udcff\u202e", 40, r"a\x1b[31m\xff\u202e"),
    ],
)
def test_end_of_a_name(text: str, width: int, shown: str) -> None:
    assert UTF8.end_of(text, width) == shown


def test_name_that_cannot_be_encoded() -> None:
    assert ASCII.text("/m\xfc") == r"/m\xfc"


def test_figures() -> None:
    assert [units.megabytes(value) for value in (None, 0, 5, 312.44e6, 1.5e9)] == [
        *("-", "0", "<0.1", "312.4", "1,500"),
    ]
    assert [units.number(value) for value in (None, 0, 0.26, 8123.4)] == ["-", "0", "0.3", "8,123"]
    assert [units.size(value) for value in (None, 0, 999, 1000, 65e6, 230e6, 5e18)] == [
        *("-", "0 B", "999 B", "1.0 KiB", "62.0 MiB", "219 MiB", "4.3 EiB"),
    ]
    assert [units.time(value) for value in (None, 0.3, 33, 1234, 123_456, 1.25e6)] == [
        *("-", "1 us", "33 us", "1.2 ms", "123 ms", "1.2 s"),
    ]
    assert [units.percent(value) for value in (None, 0, 0.999, 1)] == ["-", "0%", "99%", "100%"]
    assert [units.age(value) for value in (None, 5, 65, 3700, 90_000)] == [
        *("-", "5s", "1m05s", "1h01m", "1d01h"),
    ]


@pytest.mark.parametrize("time_us", [0, 999.9, 99_949, 99_999, 999_999, 1e6, 69e6])
def test_times_are_short(time_us: float) -> None:
    assert len(units.time(time_us)) <= 7


@pytest.mark.parametrize("size_bytes", [999.9, 99.99 * 1024, 999.9 * 1024, 999.9 * (1 << 40)])
def test_sizes_are_short(size_bytes: float) -> None:
    assert len(units.size(size_bytes)) <= 8
