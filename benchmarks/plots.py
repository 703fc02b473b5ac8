"""The results as pictures: one message each, one name and one colour for each contender.

Names and numbers are those of the tables. The colours are those of Okabe and Ito, which the
colour-blind can tell apart; every bar also has its name and its number.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from benchmarks import contenders, epoch, mounting, packers, prefetching, streaming
from benchmarks.figure import Comparison, Findings, shown

# In the order of the bars. ffrfs has one mount here, and the same with hints or warmed: only the
# tables have the other engine and transport.
COLOURS = {
    contenders.FOLDER: "#999999",
    contenders.EROFS: "#0072B2",
    contenders.SQUASHFS: "#F0E442",
    contenders.SQUASHFUSE: "#E69F00",
    contenders.RATARMOUNT: "#CC79A7",
    contenders.NATIVE: "#D55E00",
    contenders.WARMED: "#B8860B",
    contenders.HINTS: "#7A3000",
    contenders.CEILING: "#555555",
    contenders.AIO: "#000000",
}
# A packer has the colour of the mount that reads its file.
COLOURS |= {
    packers.FFR: COLOURS[contenders.NATIVE],
    packers.EROFS: COLOURS[contenders.EROFS],
    packers.SQUASHFS: COLOURS[contenders.SQUASHFS],
    packers.TAR: COLOURS[contenders.RATARMOUNT],
}
MARKERS = dict(zip([name for name in contenders.PACKERS if name in COLOURS], "osXD^v", strict=True))
DPI = 100
REASON_WIDTH = 48  # letters
LESS, MORE = "less is better", "more is better"
MOUNTING = {
    "first-touch": (
        mounting.FIRST,
        f"Reading a file for the first time, packed file cached: {LESS}",
    ),
    "first-touch-uncached": (
        mounting.UNCACHED,
        f"Reading a file for the first time, nothing cached: {LESS}",
    ),
    "again": (mounting.AGAIN, f"Reading a file again: {LESS}"),
    "page-cache": (
        mounting.PAGES,
        f"Page cache after reading all, packed file and mount: {LESS}",
    ),
    "memory": (mounting.MEMORY, f"Memory of the daemon after all: {LESS}"),
}
PACK_TITLE = f"Packing a directory until the file is on the disk: {LESS}"
READERS_TITLE = f"Files a second by 1, 2 and 4 readers at once: {MORE}"
EPOCHS_TITLE = f"Files a second, 110 KB each, shuffled, 4 readers: {MORE}"
FIRST_EPOCH_TITLE = f"Files a second in a first epoch, shuffled, 4 readers, no hints: {MORE}"
YARDSTICK_TITLE = (
    f"Files a second, beside AIO batches, which check nothing and need no mount: {MORE}"
)
STREAM_TITLE = f"Reading one large file; stroke and brackets, the packed file itself: {MORE}"
WALK_TITLE = f"find -size +0 over all files: {LESS}"
EPOCHS = (f"first epoch, from a {prefetching.ON_SLOW} a read", "second epoch, from memory")


@dataclass(frozen=True)
class Drawing:
    stem: str
    title: str
    picture: Picture

    @property
    def file(self) -> str:
        return f"{self.stem}.png"


def draw(parts: Mapping[str, Findings], folder: Path) -> None:
    """Write PNG files of all measurements."""
    for drawing in drawings(parts):
        drawing.picture.savefig(folder / drawing.file, dpi=DPI)


def drawings(parts: Mapping[str, Findings]) -> Iterator[Drawing]:
    mpl.rcParams["font.size"] = 9
    found = {name: findings.comparisons for name, findings in parts.items()}
    mounted = found.get("mounting", [])
    if mounted:
        for stem, (name, title) in MOUNTING.items():
            chosen = [each for each in mounted if each.name == name]
            yield _bars(stem, title, chosen, [each.data for each in chosen])
        walks = [each for each in mounted if each.name in (mounting.WALK, mounting.WALK_AGAIN)]
        yield _bars("walk", WALK_TITLE, walks, [f"{each.data}, {each.name[-5:]}" for each in walks])
        yield _readers(mounted)
    if found.get("streaming"):
        yield _streams(found["streaming"])
    slow = [each for each in found.get("prefetching", []) if each.name in prefetching.PLOTTED]
    if slow:
        yield _bars("epochs", EPOCHS_TITLE, slow, EPOCHS, lambda name: name != contenders.AIO)
        yield _bars("prefetching", YARDSTICK_TITLE, slow[:1], EPOCHS[:1])
    first = [each for each in found.get("epoch", []) if each.name == epoch.LISTED]
    if first:
        yield _bars("first-epoch", FIRST_EPOCH_TITLE, first, [each.data for each in first])
    packed = [each for each in found.get("packing", []) if each.name == "packing"]
    if packed:
        yield _bars("packing", PACK_TITLE, packed, [each.data for each in packed])


def _bars(
    stem: str,
    title: str,
    comparisons: Sequence[Comparison],
    labels: Sequence[str],
    takes_part: Callable[[str], bool] = lambda name: True,
) -> Drawing:
    """Draw a panel for each comparison, with a bar for each contender."""
    picture, panels = _panels(len(comparisons), title)
    for panel, comparison, label in zip(panels, comparisons, labels, strict=True):
        panel.set_title(label)
        _bar_panel(panel, comparison, list(filter(takes_part, _contenders(comparison))))
    return Drawing(stem, title, picture)


def _contenders(comparison: Comparison) -> list[str]:
    return [name for name in COLOURS if name in {**comparison.samples, **comparison.missing}]


def _bar_panel(
    panel: Axes, comparison: Comparison, names: Sequence[str], beside: Comparison | None = None
) -> None:
    """Draw bars; `beside` adds to each a value to compare: a stroke, and a number in brackets."""
    medians = [comparison.median(name) for name in names]
    lengths = [value or 0 for value in medians]
    panel.barh(names, lengths, color=[COLOURS[name] for name in names])
    panel.invert_yaxis()
    panel.set_xlabel(comparison.unit)
    for row, (name, value) in enumerate(zip(names, medians, strict=True)):
        if value is None:
            reason = textwrap.shorten(comparison.missing[name], REASON_WIDTH, placeholder=" …")
            panel.text(0, row, f" {reason}", va="center", color="#555555", size="small")
            continue
        text, end = shown(value), value
        held = beside and beside.median(name)
        if held is not None:
            text, end = f"{text} ({shown(held)})", max(value, held)
            panel.plot([held, held], [row - 0.4, row + 0.4], color="black")
        panel.text(end, row, f" {text}", va="center")
        lengths.append(end)
    panel.set_xlim(0, max(lengths) * (1.45 if beside else 1.22))
    panel.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def _readers(mounted: Sequence[Comparison]) -> Drawing:
    """Draw files a second by the number of readers; a panel for each data set and pass."""
    sets = list(dict.fromkeys(each.data for each in mounted))
    passes = (mounting.FIRST, mounting.AGAIN)
    picture, panels = _panels(len(sets) * len(passes), READERS_TITLE)
    for panel, (data, key) in zip(
        panels, ((data, key) for data in sets for key in passes), strict=True
    ):
        by_readers = {
            readers: next(
                each
                for each in mounted
                if (each.data, each.name) == (data, mounting.rate_name(readers, key))
            )
            for readers in mounting.READERS
        }
        for name, marker in MARKERS.items():
            values = [each.median(name) for each in by_readers.values()]
            if None not in values:
                panel.plot(list(by_readers), values, color=COLOURS[name], marker=marker, label=name)
        panel.set_title(f"{data}, {key}")
        panel.set_xticks(list(by_readers))
        panel.set_xlabel("readers")
        panel.set_ylabel("files/s in total")
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_minor_locator(NullLocator())
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        panel.grid(axis="y", alpha=0.3)
    lines, names = panels[0].get_legend_handles_labels()
    picture.legend(lines, names, loc="outside lower center", ncols=4)
    return Drawing("readers", READERS_TITLE, picture)


def _streams(comparisons: Sequence[Comparison]) -> Drawing:
    """Draw each kind of read, beside the packed file itself in the same state."""
    by_name = {each.name: each for each in comparisons}
    picture, panels = _panels(len(streaming.BESIDE), STREAM_TITLE)
    for panel, (name, beside) in zip(panels, streaming.BESIDE.items(), strict=True):
        read = by_name[name]
        panel.set_title(f"{read.data}, {name}")
        _bar_panel(panel, read, _contenders(read), by_name[beside])
    return Drawing("streaming", STREAM_TITLE, picture)


def _panels(count: int, title: str) -> tuple[Picture, list[Axes]]:
    """Return a picture and its panels, in rows of two."""
    rows = -(-count // 2)
    picture = Picture(figsize=(9, 0.6 + 2.2 * rows), layout="constrained")
    picture.suptitle(title)
    grid = picture.subplots(rows, min(count, 2), squeeze=False)
    panels = list(grid.flat)
    for panel in panels[count:]:
        panel.remove()
    for panel in panels[:count]:
        panel.spines[["top", "right"]].set_visible(False)
    return picture, panels[:count]
