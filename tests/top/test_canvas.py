"""Sparklines, meters and names in few characters."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from ffrfs.top import canvas
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
        ("/mnt/\u65e5\u672c", 5, "\u2026\u65e5\u672c"),  # each character takes two cells
        ("/mnt/\u65e5\u672c", 4, "\u2026\u672c"),
        ("a\x1b[31m\udcff\u202e", 40, r"a\x1b[31m\xff\u202e"),
    ],
)
def test_shortened_name_keeps_its_end(text: str, width: int, shown: str) -> None:
    assert UTF8.end_of(text, width) == shown


def test_shortening_many_pack_names_takes_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time does not grow with the square of their number."""
    measured = 0

    def cells(text: str) -> int:
        nonlocal measured
        measured += len(text)
        return cell_len(text)

    monkeypatch.setattr(canvas, "cell_len", cells)
    names = " ".join(f"/data/{number:05}.ffr" for number in range(2000))
    assert UTF8.end_of(names, 12) == "\u2026a/01999.ffr"
    assert measured < 2 * len(names)


def test_name_that_cannot_be_encoded() -> None:
    assert ASCII.text("/m\xfc") == r"/m\xfc"
