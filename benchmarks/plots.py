"""The results as pictures: one message each, one colour for each contender in all of them.

The colours are those of Okabe and Ito, which the colour-blind tell apart; every bar carries
its name and its number besides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from benchmarks import contenders, mounting, packers, prefetching, streaming
from benchmarks.figure import Comparison, Findings

COLOURS = {
    contenders.FOLDER: "#999999",
    contenders.EROFS: "#0072B2",
    contenders.SQUASHFS: "#F0E442",
    contenders.SQUASHFUSE: "#E69F00",
    contenders.RATARMOUNT: "#CC79A7",
    contenders.PYFUSE3: "#56B4E9",
    contenders.NATIVE: "#D55E00",
    contenders.URING: "#009E73",
}
# A packer has the colour of the mount that reads its file.
PACKER_COLOURS = {
    packers.FFR: COLOURS[contenders.NATIVE],
    packers.EROFS: COLOURS[contenders.EROFS],
    packers.SQUASHFS: COLOURS[contenders.SQUASHFUSE],
    packers.TAR: COLOURS[contenders.RATARMOUNT],
}
PREFETCHING_COLOURS = {
    contenders.EXT4: COLOURS[contenders.FOLDER],
    contenders.HINTS: "#009E73",
    contenders.AIO: "#000000",
    contenders.CEILING: "#000000",
}
MARKERS = dict(zip(COLOURS, "osXD^vP*", strict=True))
DPI = 100
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
PACK_TITLE = f"Packing a folder until the file is on the disk: {LESS}"
READERS_TITLE = f"Files a second by 1, 2 and 4 readers at once: {MORE}"
# The README's picture: names for those who see them for the first time.
EPOCHS = {
    contenders.EXT4: "plain directory",
    contenders.SQUASHFS: "squashfs (kernel)",
    contenders.EROFS: "EROFS (kernel)",
    contenders.SQUASHFUSE: "squashfuse",
    contenders.RATARMOUNT: "ratarmount",
    contenders.NATIVE: "ffrfs",
    contenders.HINTS: "ffrfs with hints",
}
EPOCHS_TITLE = f"Files a second, 110 KB each, shuffled, 4 readers: {MORE}"
PREFETCHING_TITLE = f"Files a second, nothing cached, from a {prefetching.ON_SLOW} a read: {MORE}"
STREAM_TITLE = f"Reading one large file, black strokes: the packed file itself: {MORE}"
WALK_TITLE = f"find -size +0 over all files: {LESS}"


def draw(parts: Mapping[str, Findings], folder: Path) -> dict[str, str]:
    """PNG files of all that was measured; returns their titles by name."""
    mpl.rcParams["font.size"] = 9
    found = {name: findings.comparisons for name, findings in parts.items()}
    drawn: dict[str, str] = {}
    mounted = found.get("mounting", [])
    if mounted:
        for stem, (name, title) in MOUNTING.items():
            chosen = [each for each in mounted if each.name == name]
            drawn[_bars(chosen, lambda each: each.data, title, folder / f"{stem}.png")] = title
        walks = [each for each in mounted if each.name in (mounting.WALK, mounting.WALK_AGAIN)]
        walk = folder / "walk.png"
        drawn[_bars(walks, lambda each: f"{each.data}, {each.name[-5:]}", WALK_TITLE, walk)] = (
            WALK_TITLE
        )
        drawn[_readers(mounted, folder / "readers.png")] = READERS_TITLE
    if found.get("streaming"):
        drawn[_streams(found["streaming"], folder / "streaming.png")] = STREAM_TITLE
    slow = [each for each in found.get("prefetching", []) if each.name in prefetching.PLOTTED]
    if slow:
        file = _bars(slow, lambda each: each.name, PREFETCHING_TITLE, folder / "prefetching.png")
        drawn[file] = PREFETCHING_TITLE
        drawn[_epochs(slow, folder / "epochs.png")] = EPOCHS_TITLE
    packed = [each for each in found.get("packing", []) if each.name == "packing"]
    if packed:
        file = _bars(packed, lambda each: each.data, PACK_TITLE, folder / "packing.png")
        drawn[file] = PACK_TITLE
    return drawn


def _bars(
    comparisons: Sequence[Comparison],
    label: Callable[[Comparison], str],
    title: str,
    file: Path,
) -> str:
    """A panel for each comparison, with a bar for each contender."""
    picture, panels = _panels(len(comparisons), title)
    for panel, comparison in zip(panels, comparisons, strict=True):
        panel.set_title(label(comparison))
        _bar_panel(panel, comparison)
    return _save(picture, file)


def _epochs(comparisons: Sequence[Comparison], file: Path) -> str:
    """First and second epoch; the first from the slow disk, the second from memory."""
    picture, panels = _panels(len(comparisons), EPOCHS_TITLE)
    titles = (f"first epoch, from a {prefetching.ON_SLOW} a read", "second epoch, from memory")
    for panel, comparison, title in zip(panels, comparisons, titles, strict=True):
        panel.set_title(title)
        _bar_panel(panel, comparison, EPOCHS)
    return _save(picture, file)


def _bar_panel(
    panel: Axes, comparison: Comparison, labels: Mapping[str, str] | None = None
) -> None:
    """`labels`: who is shown, in this order, and under which name; None: all."""
    colours = {**COLOURS, **PREFETCHING_COLOURS, **PACKER_COLOURS}
    known = {**comparison.samples, **comparison.missing}
    names = [name for name in labels or colours if name in known]
    medians = [comparison.median(name) for name in names]
    shown = [labels[name] if labels else name for name in names]
    panel.barh(shown, [value or 0 for value in medians], color=[colours[name] for name in names])
    panel.invert_yaxis()
    panel.set_xlabel(comparison.unit)
    panel.margins(x=0.22)
    for row, value in enumerate(medians):
        if value is None:
            text = "not measured"
        else:
            text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
        panel.text(value or 0, row, f" {text} ", va="center", zorder=3)


def _readers(mounted: Sequence[Comparison], file: Path) -> str:
    """Files a second by the number of readers; a panel for each data set and pass."""
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
        for name, colour in COLOURS.items():
            values = [each.median(name) for each in by_readers.values()]
            if None not in values:
                panel.plot(list(by_readers), values, color=colour, marker=MARKERS[name], label=name)
        panel.set_title(f"{data}, {key}")
        panel.set_xticks(list(by_readers))
        panel.set_xlabel("readers")
        panel.set_ylabel("files/s in total")
        panel.set_yscale("log")
        panel.grid(axis="y", alpha=0.3)
    lines, names = panels[0].get_legend_handles_labels()
    picture.legend(lines, names, loc="outside lower center", ncols=len(names))
    return _save(picture, file)


def _streams(comparisons: Sequence[Comparison], file: Path) -> str:
    """Each kind of read, and by a black stroke the packed file itself in the same state."""
    by_name = {each.name: each for each in comparisons}
    picture, panels = _panels(len(streaming.BESIDE), STREAM_TITLE)
    for panel, (name, beside) in zip(panels, streaming.BESIDE.items(), strict=True):
        panel.set_title(f"{by_name[name].data}, {name}")
        _bar_panel(panel, by_name[name])
        ticks = [text.get_text() for text in panel.get_yticklabels()]
        for row, contender in enumerate(ticks):
            value = by_name[beside].median(contender)
            if value is not None:
                panel.plot([value, value], [row - 0.4, row + 0.4], color="black")
    return _save(picture, file)


def _panels(count: int, title: str) -> tuple[Picture, list[Axes]]:
    """Two beside each other, and rows of them."""
    rows = -(-count // 2)
    picture = Picture(figsize=(9, 0.6 + 2.2 * rows), layout="constrained")
    picture.suptitle(title)
    grid = picture.subplots(rows, 2, squeeze=False)
    panels = list(grid.flat)
    for panel in panels[count:]:
        panel.remove()
    for panel in panels[:count]:
        panel.spines[["top", "right"]].set_visible(False)
    return picture, panels[:count]


def _save(picture: Picture, file: Path) -> str:
    picture.savefig(file, dpi=DPI)
    return file.name
