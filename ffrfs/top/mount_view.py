"""One mount: meters, the last minute as sparklines, and requests by kind, drawn with rich.

Not here: the figures (mount/stats/figures.py).

No state; any thread.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ffrfs.mount.client.watched import KEPT_S, Look
from ffrfs.mount.stats import figures, units
from ffrfs.mount.stats.activity import NO_REQUESTS, Activity, Answer, by_second
from ffrfs.top.canvas import Canvas
from ffrfs.top.overview import COLOURS

_TITLE_WIDTH = 10
_METER_WIDTH = 30
_VALUE_WIDTH = 9
_ROOMY = 78  # columns
_WIDE = 100
_LOW = 16  # rows; a lower screen has no empty lines
_COLOURS = {
    **{"MB/s": "green", "requests/s": "cyan", "latency": "yellow", "hit rate": "magenta"},
    **{"cache": "blue", "blocks": "blue"},
}


def mount_view(look: Look, canvas: Canvas) -> Iterator[RenderableType]:
    """Yield the parts from the top."""
    gap = [Text("")] if canvas.height >= _LOW else []
    yield from _head(look, canvas)
    if look.answer is not None:
        yield from gap
        yield from _meters(look.answer, look.last, canvas)
    if look.activities:
        yield from gap
        yield from _sparklines(look, canvas)
    if look.answer is not None:
        if look.last is not None:
            for title, parts in figures.sources(look.answer, look.last):
                yield _line(title, "   ".join(parts))
        if text := figures.errors(look.answer):
            line = _line("errors", text)
            line.stylize("bold red")
            yield line
        yield from gap
        yield from _requests(look)


def _line(title: str, *parts: str | tuple[str, str]) -> Text:
    return Text.assemble(f"{title:<{_TITLE_WIDTH}}  ", *parts)


def _head(look: Look, canvas: Canvas) -> Iterator[Text]:
    name = canvas.end_of(look.mount.mountpoint, max(canvas.width - len(look.condition) - 2, 1))
    colour = COLOURS.get(look.condition, "")
    yield Text.assemble((name, "bold"), "  ", (look.condition, colour))
    if (answer := look.answer) is not None:
        threads = f", {answer['threads']:.0f} threads" if answer["threads"] > 1 else ""
        ways = ", ".join(map(canvas.text, answer.ways))
        end = f"   {ways}{threads}   mounted for {units.age(answer['age_s'])}"
        end = end if canvas.width >= _ROOMY else ""
        packs = " ".join(look.mount.packs)
        yield Text(canvas.end_of(packs, max(canvas.width - len(end), 8)) + end, "dim")
    if advice := figures.advice(look.condition, look.mount.mountpoint):
        yield Text(canvas.text(advice), "bold")


def _meters(answer: Answer, last: Activity | None, canvas: Canvas) -> Iterator[Text]:
    for title, share, text in figures.meters(answer, last):
        if share is None:
            yield _line(title, text)
            continue
        full, empty = canvas.meter(share, min(_METER_WIDTH, max(canvas.width - 34, 4)))
        fullness = "red" if share > 0.9 else "yellow" if share > 0.75 else "green"
        colour = _COLOURS.get(title, fullness)
        yield _line(title, (full, colour), (empty, "dim"), f"  {text}")


def _sparklines(look: Look, canvas: Canvas) -> Iterator[Text]:
    count = min(int(KEPT_S), max(canvas.width - _TITLE_WIDTH - _VALUE_WIDTH - 3, 1))
    busy = False
    for title, value, text in figures.RATES:
        values = by_second(look.activities, value, look.at_s, count)
        if not any(values):  # all are unknown or 0
            continue
        busy = True
        now = value(look.last) if look.last is not None else None
        is_share = text is units.percent
        most = max(each for each in values if each is not None)
        bars = canvas.sparkline(values, 1.0 if is_share else most)
        line = _line(title, (bars, _COLOURS[title]), (f" {text(now):>{_VALUE_WIDTH}}", "bold"))
        if canvas.width >= _WIDE and not is_share:
            line.append(f"   peak {text(max(most, now or 0))}", "dim")
        yield line
    if not busy:
        yield Text("no requests in the last minute", "dim")


def _requests(look: Look) -> Iterator[Table]:
    """Yield the table of the kinds of requests in the last seconds, if there were any."""
    kinds = figures.recent_kinds(look.activities, look.at_s)
    if not kinds or look.last is None:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(Text("request", "dim"), no_wrap=True, min_width=10)
    for title in ("per s", "p50", "p99"):
        table.add_column(Text(title, "dim"), justify="right", no_wrap=True, min_width=7)
    for kind, times in kinds:
        cells = (units.number(times.per_s), units.time(times.p50_us), units.time(times.p99_us))
        table.add_row(kind, *cells, style="dim" if times is NO_REQUESTS else "")
    yield table
