"""All mounts, a row each, drawn with rich.

No state; any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ffrfs.mount.client.watched import Look
from ffrfs.mount.stats import units
from ffrfs.top.canvas import Canvas
from ffrfs.top.columns import MOUNT, STATE, Column, fitting

_GAP = 2
_MOUNT_WIDTH_MIN = 8
COLOURS = {
    **{"live": "green", "detached": "yellow", "no answer": "bold yellow"},
    **{"dead": "bold red", "unknown": "yellow", "other version": "yellow", "gone": "yellow"},
}


def overview(
    looks: Sequence[Look], chosen: str | None, sorted_by: Column, canvas: Canvas
) -> Iterator[RenderableType]:
    """Yield the parts from the top. `chosen`: the mount point of the marked row."""
    shown = _around(looks, chosen, max(canvas.height - 3, 1))
    yield _totals(looks, len(shown))
    yield Text("")
    columns = fitting(canvas.width)
    used = sum(each.width + _GAP for each in columns if each.width)
    mount_width = max(canvas.width - used, _MOUNT_WIDTH_MIN)
    table = Table(box=None, padding=(0, 0, 0, _GAP), pad_edge=False)
    for each in columns:
        table.add_column(
            Text(
                "  " * (each is MOUNT) + each.title,
                "bold underline" if each == sorted_by else "bold",
            ),
            justify="right" if each.is_number else "left",
            width=each.width or mount_width,
            no_wrap=True,
            overflow="ellipsis" if canvas.cut == "…" else "crop",
        )
    for look in shown:
        is_chosen = look.mount.mountpoint == chosen
        mount = canvas.end_of(look.mount.mountpoint, mount_width - len(canvas.mark) - 1)
        cells = [Text(f"{canvas.mark if is_chosen else ' '} {mount}")]
        cells += [_cell(each, look, canvas) for each in columns if each is not MOUNT]
        table.add_row(*cells, style="bold" if is_chosen else "")
    yield table
    if not looks:
        yield Text("")
        yield Text("No mounts. To mount a pack: ffrfs mount PACK MOUNTPOINT", "dim")


def _totals(looks: Sequence[Look], shown_count: int) -> Text:
    troubled = sum(not look.is_well for look in looks)
    last = [look.last for look in looks if look.last is not None]
    text = Text(f"{len(looks)} mount{'' if len(looks) == 1 else 's'}")
    if shown_count < len(looks):
        text.append(f", {shown_count} shown")
    if troubled:
        text.append(", ").append(f"{troubled} not live", "bold red")
    text.append(f"   {units.megabytes(sum(each.per_s('bytes_served') for each in last))} MB/s")
    text.append(f"   {units.number(sum(each.times.per_s for each in last))} requests/s")
    return text


def _around(looks: Sequence[Look], chosen: str | None, count: int) -> Sequence[Look]:
    """Return as many mounts as fit, including the chosen one."""
    places = [look.mount.mountpoint for look in looks]
    at = places.index(chosen) if chosen in places else 0
    begin = max(at - count + 1, 0)
    return looks[begin : begin + count]


def _cell(column: Column, look: Look, canvas: Canvas) -> Text:
    text = canvas.text(column.cell(look))
    if column is STATE:
        return Text(text, COLOURS.get(look.condition, ""))
    return Text(text, "dim" if text in (units.NONE, "0") else "")
