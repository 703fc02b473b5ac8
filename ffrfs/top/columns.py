"""The rows of the list of mounts: their columns, the choice of columns, and their order.

Not here: drawing (overview.py). No state; any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ffrfs.mount.client.watched import Look
from ffrfs.mount.stats import units
from ffrfs.printable import printable


@dataclass(frozen=True, kw_only=True)
class Column:
    title: str
    cell: Callable[[Look], str]
    key: Callable[[Look], float | str]  # the sorting key, smallest first
    width: int  # 0: the rest of the line
    screen_width_min: int = 0  # a narrower screen leaves the column out


def _of_sample(name: str) -> Callable[[Look], float | None]:
    return lambda look: getattr(look.last, name, None)


def _largest_first(value: Callable[[Look], float | None]) -> Callable[[Look], float]:
    def key(look: Look) -> float:
        found = value(look)
        return 1.0 if found is None else -found

    return key


def _figure(
    title: str,
    value: Callable[[Look], float | None],
    text: Callable[[float | None], str],
    width: int,
    screen_width_min: int = 0,
) -> Column:
    return Column(
        title=title,
        cell=lambda look: text(value(look)),
        key=_largest_first(value),
        width=width,
        screen_width_min=screen_width_min,
    )


def _packs(look: Look) -> str:
    first, *more = look.place.packs or ("",)
    name = first.rstrip("/").rpartition("/")[2]
    return f"{name} +{len(more)}" if more else name


MOUNT = Column(title="MOUNT", cell=lambda look: look.place.mountpoint, key=lambda look: "", width=0)
STATE = Column(
    title="STATE",
    cell=lambda look: look.condition,
    key=lambda look: f"{look.is_well:d}{look.condition}",  # trouble first
    width=9,
)
PACK = Column(title="PACK", cell=_packs, key=_packs, width=20, screen_width_min=120)
ON_THE_LEFT = (MOUNT, STATE, PACK)
COLUMNS = (
    MOUNT,
    STATE,
    _figure("MB/S", _of_sample("bytes_per_s"), units.megabytes, 6),
    _figure("REQ/S", _of_sample("requests_per_s"), units.number, 7, 48),
    _figure("P50", _of_sample("p50_us"), units.time, 7, 100),
    _figure("P99", _of_sample("p99_us"), units.time, 7, 64),
    _figure("HIT", _of_sample("hit"), units.percent, 4, 72),
    _figure(
        "MEMORY",
        lambda look: look.holdings.resident_bytes if look.holdings else None,
        units.size,
        8,
        88,
    ),
    _figure("AGE", lambda look: look.holdings.age_s if look.holdings else None, units.age, 6, 56),
    PACK,
)


def fitting(screen_width: int) -> list[Column]:
    return [column for column in COLUMNS if column.screen_width_min <= screen_width]


def table(looks: Sequence[Look]) -> list[str]:
    """Return lines of text with all columns, for a program or a file; a name never breaks one."""
    cells = [[column.title for column in COLUMNS]]
    cells += [
        [printable(column.cell(look)) for column in COLUMNS] for look in ordered(looks, MOUNT)
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column in ON_THE_LEFT else cell.rjust(width)
            for cell, width, column in zip(row, widths, COLUMNS, strict=True)
        ).rstrip()
        for row in cells
    ]


def ordered(looks: Sequence[Look], column: Column) -> list[Look]:
    """Return the mounts sorted by the column; equal ones by mount point."""
    by_place = sorted(looks, key=lambda look: look.place.mountpoint)
    return sorted(by_place, key=column.key)
