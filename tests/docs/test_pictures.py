"""The published pictures show the published results, and are legible: no text is cut off, or
overlaps another text, a bar or a stroke.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import report
from tests.checkout import CHECKOUT

if TYPE_CHECKING:
    from benchmarks.plots import Drawing

PUBLISHED = CHECKOUT / "docs" / "benchmarks"


@pytest.fixture(scope="module")
def results() -> report.Results:
    return report.from_json((PUBLISHED / "results.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def drawings(results: report.Results) -> dict[str, Drawing]:
    pytest.importorskip("matplotlib", reason="the pictures need matplotlib (extra `bench`)")
    from benchmarks import plots

    findings = {part: result.findings for part, result in results.items()}
    found = {drawing.file: drawing for drawing in plots.drawings(findings)}
    for drawing in found.values():
        drawing.picture.draw_without_rendering()
    return found


def texts(drawing: Drawing) -> dict[str, Any]:
    """Return the box of each visible text, in pixels."""
    from matplotlib.text import Text

    picture = drawing.picture
    unseen = set()
    for panel in picture.axes:
        for axis in (panel.xaxis, panel.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not low <= tick.get_loc() <= high:
                    unseen |= {tick.label1, tick.label2}
    found = [
        text
        for text in picture.findobj(Text)
        if text.get_visible() and text.get_text().strip() and text not in unseen
    ]
    boxes = {f"{n}: {text.get_text()}": text.get_window_extent() for n, text in enumerate(found)}
    assert len(boxes) > 10
    return boxes


def on_each_other(boxes: dict[str, Any]) -> list[tuple[str, str]]:
    return [(a, b) for a, b in combinations(boxes, 2) if boxes[a].overlaps(boxes[b])]


def test_all_pictures_are_published(drawings: dict[str, Drawing]) -> None:
    assert {path.name for path in PUBLISHED.glob("*.png")} == drawings.keys()
    page = (PUBLISHED / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^!\[(.*)\]\((.*)\)$", page, re.MULTILINE)
    assert shown == [(drawing.title, file) for file, drawing in drawings.items()]


def test_no_text_is_cut_off_or_overlaps_another(drawings: dict[str, Drawing]) -> None:
    for drawing in drawings.values():
        boxes, whole = texts(drawing), drawing.picture.bbox
        cut = [
            text
            for text, box in boxes.items()
            if not (whole.contains(box.x0, box.y0) and whole.contains(box.x1, box.y1))
        ]
        assert (drawing.file, cut, on_each_other(boxes)) == (drawing.file, [], [])


def test_no_number_overlaps_a_bar_or_a_stroke(drawings: dict[str, Drawing]) -> None:
    for drawing in drawings.values():
        for panel in drawing.picture.axes:
            bars = [bar.get_window_extent() for bars in panel.containers for bar in bars]
            strokes = [line.get_window_extent() for line in panel.lines if bars]
            for number in panel.texts:
                # A number begins with a space, which may touch a bar.
                box = number.get_window_extent().padded(-2)
                on = f"{drawing.file}: {number.get_text()} is on something"
                assert not any(map(box.overlaps, (*bars, *strokes))), on


def test_each_contender_has_a_colour_of_its_own() -> None:
    pytest.importorskip("matplotlib", reason="the pictures need matplotlib (extra `bench`)")
    from benchmarks import contenders, packers, plots

    others = (contenders.PYFUSE3, contenders.URING)  # only in the tables
    names = [name for name in contenders.PACKERS if name not in others]
    names += [contenders.WARMED, contenders.HINTS]
    names += [contenders.CEILING, contenders.AIO]
    assert [*names, packers.FFR, *packers.PROGRAMS] == list(plots.COLOURS)
    assert len({plots.COLOURS[name] for name in names}) == len(names)


def test_pictures_omit_engines_and_transports(drawings: dict[str, Drawing]) -> None:
    """They also show it with hints; only the tables have its engines and transports."""
    shown = {text.partition(": ")[2] for each in drawings.values() for text in texts(each)}
    ours = {text for text in shown if text.startswith("ffrfs")}
    assert ours == {"ffrfs", "ffrfs with hints", "ffrfs pack"}
