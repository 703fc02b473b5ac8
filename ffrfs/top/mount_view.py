"""One mount: meters, the last minute as sparklines, and requests by kind, drawn with rich.

Values of zero are left out, so an idle mount has an almost empty screen.

No state; any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ffrfs.mount.client.watched import KEPT_S, Look
from ffrfs.mount.stats import units
from ffrfs.mount.stats.activity import NO_REQUESTS, Activity, Answer, by_second
from ffrfs.top.canvas import Canvas
from ffrfs.top.overview import COLOURS

_TITLE_WIDTH = 10
_METER_WIDTH = 30
_VALUE_WIDTH = 9
_RECENT_S = 10.0  # long enough that rows do not come and go every second
_ROOMY = 78  # columns
_WIDE = 100
_LOW = 16  # rows; a lower screen has no empty lines
_SMALL_BYTES = 50_000  # a second; smaller rates are left out

_Value = Callable[[Activity], float | None]
_SPARKLINES: tuple[tuple[str, _Value, Callable[[float | None], str], str], ...] = (
    ("MB/s", lambda done: done.per_s("bytes_served"), units.megabytes, "green"),
    ("requests/s", lambda done: done.times.per_s, units.number, "cyan"),
    ("latency", lambda done: done.times.p99_us, units.time, "yellow"),
    ("hit rate", lambda done: done.hit, units.percent, "magenta"),
)
_SOURCES = {"memory": "bytes_memory", "page cache": "bytes_page_cache", "storage": "bytes_storage"}
# Title → the group of numbers, and those that are shown as events a second.
_EVENTS = {
    "prefetch": ("prefetch", ("fetched", "pushed", "hit", "late")),
    "readahead": ("readahead", ("fetched", "pushed", "hit")),
    "around": ("read_around", ("pushed",)),
}
_ADVICE = {
    "dead": "Its daemon has ended. To remove the mount: ffrfs umount {}",
    "no answer": "Its daemon runs, but does not answer.",
    "detached": "Another program unmounted it; it serves the files that are still open.",
    "gone": "It is not mounted any more.",
    "other version": "Its daemon has another version of ffrfs. Try: ffrfs stats --json {}",
    "unknown": "No daemon is known for it. To remove the mount: ffrfs umount {}",
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
            yield from _sources(look.answer, look.last)
        yield from _errors(look.answer)
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
        engine = ", ".join(canvas.text(name) for name in (answer.engine, answer.transport) if name)
        end = f"   {engine}{threads}   mounted for {units.age(answer['age_s'])}"
        end = end if canvas.width >= _ROOMY else ""
        packs = " ".join(look.mount.packs)
        yield Text(canvas.end_of(packs, max(canvas.width - len(end), 8)) + end, "dim")
    if look.condition in _ADVICE:
        yield Text(canvas.text(_ADVICE[look.condition].format(look.mount.mountpoint)), "bold")


def _meters(answer: Answer, last: Activity | None, canvas: Canvas) -> Iterator[Text]:
    def meter(title: str, share: float, text: str, colour: str) -> Text:
        full, empty = canvas.meter(share, min(_METER_WIDTH, max(canvas.width - 34, 4)))
        return _line(title, (full, colour), (empty, "dim"), f"  {text}")

    if last is not None and last.hit is not None:
        yield meter("hit rate", last.hit, units.percent(last.hit), "magenta")
    for title, group in (("cache", ""), ("blocks", "remote.")):
        size, limit = answer[f"{group}cache_bytes"], answer[f"{group}cache_limit_bytes"]
        if size and limit:
            of = f"{units.size(size)} of {units.size(limit)}"
            yield meter(title, size / limit, of, "blue")
    text = units.size(answer["resident_bytes"])
    pressure = answer["memory_pressure"]
    waits = f", memory pressure {pressure:.1f} %" if pressure >= 0.1 else ""
    if limit := answer["memory_limit_bytes"]:
        share = answer["resident_bytes"] / limit
        colour = "red" if share > 0.9 else "yellow" if share > 0.75 else "green"
        yield meter("memory", share, f"{text} of {units.size(limit)}{waits}", colour)
    else:
        yield _line("memory", text + waits)


def _sparklines(look: Look, canvas: Canvas) -> Iterator[Text]:
    count = min(int(KEPT_S), max(canvas.width - _TITLE_WIDTH - _VALUE_WIDTH - 3, 1))
    busy = False
    for title, value, text, colour in _SPARKLINES:
        values = by_second(look.activities, value, look.at_s, count)
        if not any(values):  # all are unknown or 0
            continue
        busy = True
        now = value(look.last) if look.last is not None else None
        is_share = text is units.percent
        most = max(each for each in values if each is not None)
        bars = canvas.sparkline(values, 1.0 if is_share else most)
        line = _line(title, (bars, colour), (f" {text(now):>{_VALUE_WIDTH}}", "bold"))
        if canvas.width >= _WIDE and not is_share:
            line.append(f"   peak {text(max(most, now or 0))}", "dim")
        yield line
    if not busy:
        yield Text("no requests in the last minute", "dim")


def _sources(answer: Answer, last: Activity) -> Iterator[Text]:
    """Yield lines about the sources of bytes, and reading ahead, in this second."""
    parts = [
        f"{title} {units.megabytes(last.per_s(name))} MB/s"
        for title, name in _SOURCES.items()
        if last.per_s(name) >= _SMALL_BYTES
    ]
    if waiting := answer["queue_depth"]:
        parts.append(f"{waiting:,.0f} reads wait")
    yield from _joined("from", parts)
    again = _rates(last, "remote", ("retries", "throttled", "errors"))
    found = last.share("remote.blocks_hit", "remote.blocks_fetched")
    if again or found is not None or last.per_s("remote.bytes"):
        parts = [f"{units.megabytes(last.per_s('remote.bytes'))} MB/s"]
        parts += [] if found is None else [f"hit rate {units.percent(found)}"]
        yield from _joined("fetched", parts + again)
    for title, (group, events) in _EVENTS.items():
        yield from _joined(title, _rates(last, group, events))


def _rates(last: Activity, group: str, events: tuple[str, ...]) -> list[str]:
    rates = {event: last.per_s(f"{group}.{event}") for event in events}
    return [f"{event} {units.number(per_s)}/s" for event, per_s in rates.items() if per_s]


def _joined(title: str, parts: list[str]) -> Iterator[Text]:
    if parts:
        yield _line(title, "   ".join(parts))


def _errors(answer: Answer) -> Iterator[Text]:
    text = ""
    if count := answer["unreadable_files"]:
        files = "file" if count == 1 else "files"
        text = f"{count:,.0f} unreadable {files}; see: ffrfs stats --errors"
    elif count := answer["checksums_failed"]:
        text = f"{count:,.0f} bad checksums; see: ffrfs log"
    if text:
        line = _line("errors", text)
        line.stylize("bold red")
        yield line


def _requests(look: Look) -> Iterator[Table]:
    """Yield the table of the kinds of requests in the last seconds, if there were any."""
    recent = [one for one in look.activities if one.end_s > look.at_s - _RECENT_S]
    kinds = sorted({kind for one in recent for kind in one.kinds})
    if not kinds or look.last is None:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(Text("request", "dim"), no_wrap=True, min_width=10)
    for title in ("per s", "p50", "p99"):
        table.add_column(Text(title, "dim"), justify="right", no_wrap=True, min_width=7)
    for kind in kinds:
        times = look.last.kinds.get(kind, NO_REQUESTS)
        cells = (units.number(times.per_s), units.time(times.p50_us), units.time(times.p99_us))
        table.add_row(kind, *cells, style="dim" if times is NO_REQUESTS else "")
    yield table
