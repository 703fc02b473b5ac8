"""The columns of the list of mounts: their numbers, the choice of columns, and their order.

Not here: drawing (overview.py), so `ffrfs top --batch` works without rich. No state; any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ffrfs.mount.client.watched import Look
from ffrfs.mount.stats import units
from ffrfs.mount.stats.activity import Activity


@dataclass(frozen=True)
class Column:
    title: str
    value: Callable[[Look], Any]  # text, or a number; None: unknown
    text: Callable[[Any], str] = str
    width: int = 0  # 0: the rest of the line
    screen_width_min: int = 0  # a narrower screen leaves the column out

    @property
    def is_number(self) -> bool:
        return self.text is not str

    def cell(self, look: Look) -> str:
        return self.text(self.value(look))

    def key(self, look: Look) -> float | str:
        """Return the sorting key: numbers begin with the largest."""
        value: float | str | None = self.value(look)
        if isinstance(value, str):
            return value
        return 1.0 if value is None else -value


def _packs(look: Look) -> str:
    first, *more = look.mount.packs or ("",)
    name = first.rstrip("/").rpartition("/")[2]
    return f"{name} +{len(more)}" if more else name


def _lately(value: Callable[[Activity], float | None]) -> Callable[[Look], float | None]:
    return lambda look: None if look.last is None else value(look.last)


def _held(name: str) -> Callable[[Look], float | None]:
    return lambda look: None if look.answer is None else look.answer[name]


MOUNT = Column("MOUNT", lambda look: look.mount.mountpoint)
STATE = Column("STATE", lambda look: look.condition, width=9)
COLUMNS = (
    MOUNT,
    STATE,
    Column("MB/S", _lately(lambda done: done.per_s("bytes_served")), units.megabytes, 6),
    Column("REQ/S", _lately(lambda done: done.times.per_s), units.number, 7, 48),
    Column("P50", _lately(lambda done: done.times.p50_us), units.time, 7, 100),
    Column("P99", _lately(lambda done: done.times.p99_us), units.time, 7, 64),
    Column("HIT", _lately(lambda done: done.hit), units.percent, 4, 72),
    Column("MEMORY", _held("resident_bytes"), units.size, 8, 88),
    Column("AGE", _held("age_s"), units.age, 6, 56),
    Column("PACK", _packs, width=20, screen_width_min=120),
)


def fitting(screen_width: int) -> list[Column]:
    return [column for column in COLUMNS if column.screen_width_min <= screen_width]


def ordered(looks: Sequence[Look], column: Column) -> list[Look]:
    """Return the mounts sorted by the column, by state those in trouble first."""
    by_place = sorted(looks, key=MOUNT.key)
    return sorted(by_place, key=lambda look: (column is STATE and look.is_well, column.key(look)))


def table(looks: Sequence[Look]) -> list[tuple[str, ...]]:
    """Return the titles and all cells, for a program or a file."""
    titles = tuple(column.title for column in COLUMNS)
    rows = (tuple(each.cell(look) for each in COLUMNS) for look in ordered(looks, MOUNT))
    return [titles, *rows]
