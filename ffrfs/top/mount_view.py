"""One mount: meters, the last minute as sparklines, requests by kind.

Values of zero are left out, so an idle mount has an almost empty screen.

No state; any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ffrfs.mount.client.watched import KEPT_S, Look
from ffrfs.mount.stats import units
from ffrfs.mount.stats.activity import Holdings, Sample
from ffrfs.top.canvas import Canvas, by_second
from ffrfs.top.overview import COLOURS

_TITLE_WIDTH = 10
_METER_WIDTH = 30
_VALUE_WIDTH = 9
_RECENT_S = 10.0  # long enough that rows do not come and go every second
_SIDE_BY_SIDE = 78  # columns
_WIDE = 100
_LOW = 16  # rows; a lower screen has no empty lines
_SMALL_BYTES = 50_000  # a second; smaller rates are left out

_Value = Callable[[Sample], float | None]
_SPARKLINES: tuple[tuple[str, _Value, Callable[[float | None], str], str], ...] = (
    ("MB/s", lambda sample: sample.bytes_per_s, units.megabytes, "green"),
    ("requests/s", lambda sample: sample.requests_per_s, units.number, "cyan"),
    ("latency", lambda sample: sample.p99_us, units.time, "yellow"),
    ("hit rate", lambda sample: sample.hit, units.percent, "magenta"),
)
_ADVICE = {
    "dead": "Its daemon has ended. To remove the mount: ffrfs umount {}",
    "no answer": "Its daemon runs, but does not answer.",
    "detached": "Another program unmounted it; it serves the files that are still open.",
    "gone": "It is not mounted any more.",
    "other version": "Its daemon has another version of ffrfs. Try: ffrfs stats --json {}",
    "unknown": "No daemon is known for it. To remove the mount: ffrfs umount {}",
}


def mount_view(look: Look, canvas: Canvas) -> Iterator[RenderableType]:
    """Yield the lines from the top."""
    gap = [Text("")] if canvas.height >= _LOW else []
    yield from _head(look, canvas)
    if look.holdings is not None:
        yield from gap
        yield from _meters(look.holdings, look.last, canvas)
    if look.samples:
        yield from gap
        yield from _sparklines(look, canvas)
    if look.holdings is not None:
        yield from _sources(look)
        yield from _errors(look.holdings)
        yield from gap
        if (table := _requests(look)) is not None:
            yield table


def _head(look: Look, canvas: Canvas) -> Iterator[Text]:
    yield Text.assemble(
        (
            canvas.end_of(look.place.mountpoint, max(canvas.width - len(look.condition) - 2, 1)),
            "bold",
        ),
        "  ",
        (look.condition, COLOURS.get(look.condition, "")),
    )
    if look.holdings is not None:
        held = look.holdings
        threads = f", {held.threads} threads" if held.threads > 1 else ""
        engine = ", ".join(canvas.text(name) for name in (held.engine, held.transport) if name)
        end = f"   {engine}{threads}   mounted for {units.age(held.age_s)}"
        end = end if canvas.width >= _SIDE_BY_SIDE else ""
        packs = " ".join(look.place.packs)
        yield Text(canvas.end_of(packs, max(canvas.width - len(end), 8)) + end, "dim")
    if look.condition in _ADVICE:
        yield Text(canvas.text(_ADVICE[look.condition].format(look.place.mountpoint)), "bold")


def _meters(held: Holdings, last: Sample | None, canvas: Canvas) -> Iterator[Text]:
    if last is not None and last.hit is not None:
        yield _meter("hit rate", last.hit, units.percent(last.hit), "magenta", canvas)
    for title, size, limit in (
        ("cache", held.cache_bytes, held.cache_limit_bytes),
        ("blocks", held.block_cache_bytes, held.block_cache_limit_bytes),
    ):
        if size and limit:
            of = f"{units.size(size)} of {units.size(limit)}"
            yield _meter(title, size / limit, of, "blue", canvas)
    resident = units.size(held.resident_bytes)
    if held.memory_limit_bytes:
        share = held.resident_bytes / held.memory_limit_bytes
        colour = "red" if share > 0.9 else "yellow" if share > 0.75 else "green"
        text = f"{resident} of {units.size(held.memory_limit_bytes)}"
        yield _meter("memory", share, text + _pressure(held), colour, canvas)
    else:
        yield Text(f"{'memory':<{_TITLE_WIDTH}}  {resident}{_pressure(held)}")


def _pressure(held: Holdings) -> str:
    if held.memory_pressure is None or held.memory_pressure < 0.1:
        return ""
    return f", memory pressure {held.memory_pressure:.1f} %"


def _meter(title: str, share: float, text: str, colour: str, canvas: Canvas) -> Text:
    full, empty = canvas.meter(share, min(_METER_WIDTH, max(canvas.width - 34, 4)))
    head = f"{title:<{_TITLE_WIDTH}}  "
    return Text.assemble(head, (full, colour), (empty, "dim"), f"  {text}")


def _sparklines(look: Look, canvas: Canvas) -> Iterator[Text]:
    count = min(int(KEPT_S), max(canvas.width - _TITLE_WIDTH - _VALUE_WIDTH - 3, 1))
    busy = False
    for title, value, text, colour in _SPARKLINES:
        values = by_second(look.samples, value, look.at_s, count)
        if not any(values):  # all are unknown or 0
            continue
        busy = True
        now = value(look.last) if look.last is not None else None
        is_share = text is units.percent
        most = max(each for each in values if each is not None)
        line = Text.assemble(
            f"{title:<{_TITLE_WIDTH}}  ",
            (canvas.sparkline(values, 1.0 if is_share else most), colour),
            (f" {text(now):>{_VALUE_WIDTH}}", "bold"),
        )
        if canvas.width >= _WIDE and not is_share:
            line.append(f"   peak {text(max(most, now or 0))}", "dim")
        yield line
    if not busy:
        yield Text("no requests in the last minute", "dim")


def _sources(look: Look) -> Iterator[Text]:
    """Yield lines about the sources of bytes, and reading ahead, in this second."""
    last, held = look.last, look.holdings
    if last is None or held is None:
        return
    parts = [
        f"{title} {units.megabytes(per_s)} MB/s"
        for title, per_s in last.sources.items()
        if per_s >= _SMALL_BYTES
    ]
    if held.queue_depth:
        parts.append(f"{held.queue_depth:,} reads wait")
    if parts:
        yield Text(f"{'from':<{_TITLE_WIDTH}}  {'   '.join(parts)}")
    if any(last.remote.values()):
        yield Text(f"{'fetched':<{_TITLE_WIDTH}}  {_fetched(last.remote)}")
    for way, events in last.ahead.items():
        ahead = [f"{event} {units.number(per_s)}/s" for event, per_s in events.items() if per_s > 0]
        if ahead:
            yield Text(f"{way:<{_TITLE_WIDTH}}  {'   '.join(ahead)}")


def _fetched(remote: Mapping[str, float]) -> str:
    """Return the rates of a fetcher in this second, and the share of blocks found in the cache."""
    looked = remote["blocks_hit"] + remote["blocks_fetched"]
    parts = [f"{units.megabytes(remote['bytes'])} MB/s"]
    parts += [f"hit rate {units.percent(remote['blocks_hit'] / looked)}"] if looked else []
    parts += [
        f"{name} {units.number(remote[name])}/s"
        for name in ("retries", "throttled", "errors")
        if remote[name] > 0
    ]
    return "   ".join(parts)


def _errors(held: Holdings) -> Iterator[Text]:
    texts = []
    if held.unreadable_files:
        files = "file" if held.unreadable_files == 1 else "files"
        texts.append(f"{held.unreadable_files:,} unreadable {files}; see: ffrfs stats --errors")
    if held.checksums_failed:
        texts.append(f"{held.checksums_failed:,} bad checksums; see: ffrfs log")
    for text in texts[:1]:
        yield Text(f"{'errors':<{_TITLE_WIDTH}}  {text}", "bold red")


def _requests(look: Look) -> Table | None:
    """Return the table of the kinds of requests in the last seconds."""
    recent = [one for one in look.samples if one.end_s > look.at_s - _RECENT_S]
    kinds = dict.fromkeys(kind for one in recent for kind in one.kinds)
    if not kinds or look.last is None:
        return None
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in ("request", "per s", "p50", "p99"):
        table.add_column(
            Text(title, "dim"),
            justify="left" if title == "request" else "right",
            no_wrap=True,
            min_width=7 if title != "request" else 10,
        )
    for kind in sorted(kinds):
        times = look.last.kinds.get(kind)
        table.add_row(
            Text(kind),
            units.number(times.per_s if times else 0),
            units.time(times.p50_us if times else None),
            units.time(times.p99_us if times else None),
            style="" if times else "dim",
        )
    return table
