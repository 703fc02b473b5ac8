"""The figures of one mount that people watch: meters, rates of the last minute, sources, requests.

`ffrfs top` and the viewer's page of a mount show these, each in its own way. Values of zero are
left out, so there is little to see of an idle mount.

No state; any thread.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ffrfs.mount.stats import units
from ffrfs.mount.stats.activity import NO_REQUESTS, Activity, Answer, Times

_RECENT_S = 10.0  # long enough that rows do not come and go every second
_SMALL_BYTES = 50_000  # a second; smaller rates are left out


class Rate(NamedTuple):
    """A figure that changes. `text`: writes a value in few characters."""

    title: str
    value: Callable[[Activity], float | None]
    text: Callable[[float | None], str]


class Meter(NamedTuple):
    """`share`: from 0 to 1; None: there is no limit."""

    title: str
    share: float | None
    text: str


RATES = (
    Rate("MB/s", lambda done: done.per_s("bytes_served"), units.megabytes),
    Rate("requests/s", lambda done: done.times.per_s, units.number),
    Rate("latency", lambda done: done.times.p99_us, units.time),
    Rate("hit rate", lambda done: done.hit, units.percent),
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


def advice(condition: str, mountpoint: str) -> str:
    """Return advice for a person in that condition; "" if there is none."""
    return _ADVICE.get(condition, "").format(shlex.quote(mountpoint))


def meters(answer: Answer, last: Activity | None) -> Iterator[Meter]:
    if last is not None and last.hit is not None:
        yield Meter("hit rate", last.hit, units.percent(last.hit))
    for title, group in (("cache", ""), ("blocks", "remote.")):
        size, limit = answer[f"{group}cache_bytes"], answer[f"{group}cache_limit_bytes"]
        if size and limit:
            yield Meter(title, size / limit, f"{units.size(size)} of {units.size(limit)}")
    text = units.size(answer["resident_bytes"])
    pressure = answer["memory_pressure"]
    waits = f", memory pressure {pressure:.1f} %" if pressure >= 0.1 else ""
    if limit := answer["memory_limit_bytes"]:
        share = answer["resident_bytes"] / limit
        yield Meter("memory", share, f"{text} of {units.size(limit)}{waits}")
    else:
        yield Meter("memory", None, text + waits)


def sources(answer: Answer, last: Activity) -> Iterator[tuple[str, list[str]]]:
    """Yield titles and parts about the sources of bytes, and reading ahead, in this second."""
    parts = [
        f"{title} {units.megabytes(last.per_s(name))} MB/s"
        for title, name in _SOURCES.items()
        if last.per_s(name) >= _SMALL_BYTES
    ]
    if waiting := answer["queue_depth"]:
        parts.append(f"{waiting:,.0f} reads wait")
    if parts:
        yield "from", parts
    again = _rates(last, "remote", ("retries", "throttled", "errors"))
    found = last.share("remote.blocks_hit", "remote.blocks_fetched")
    if again or found is not None or last.per_s("remote.bytes"):
        parts = [f"{units.megabytes(last.per_s('remote.bytes'))} MB/s"]
        parts += [] if found is None else [f"hit rate {units.percent(found)}"]
        yield "fetched", parts + again
    for title, (group, events) in _EVENTS.items():
        if parts := _rates(last, group, events):
            yield title, parts


def _rates(last: Activity, group: str, events: tuple[str, ...]) -> list[str]:
    rates = {event: last.per_s(f"{group}.{event}") for event in events}
    return [f"{event} {units.number(per_s)}/s" for event, per_s in rates.items() if per_s]


def errors(answer: Answer) -> str:
    """Return what went wrong, or ""."""
    if count := answer["unreadable_files"]:
        files = "file" if count == 1 else "files"
        return f"{count:,.0f} unreadable {files}; see: ffrfs stats --errors"
    if count := answer["checksums_failed"]:
        return f"{count:,.0f} bad checksums; see: ffrfs log"
    if count := answer["worker.deaths"]:
        deaths = "worker died and was" if count == 1 else "workers died and were"
        return f"{count:,.0f} {deaths} replaced; see: ffrfs log"
    return ""


def recent_kinds(activities: Sequence[Activity], at_s: float) -> list[tuple[str, Times]]:
    """Return the times of each kind of requests of the last seconds, in the last interval."""
    recent = [one for one in activities if one.end_s > at_s - _RECENT_S]
    kinds = sorted({kind for one in recent for kind in one.kinds})
    return [(kind, activities[-1].kinds.get(kind, NO_REQUESTS)) for kind in kinds]
