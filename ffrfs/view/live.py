"""A mount as it works: the figures of `ffrfs top`, sent again each second while the page is open.

The daemon is asked, not the mount, so that the page works while the mount hangs. Events are
server-sent: each has the figures as the page's template shows them.

Concurrency: streams are tasks of the server, at most _STREAMS_MAX; they ask in threads.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import anyio
import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ffrfs.errors import MountError
from ffrfs.mount.client.control_client import ask
from ffrfs.mount.client.watched import KEPT_S, Look, Watched
from ffrfs.mount.stats import figures, units
from ffrfs.mount.stats.activity import by_second
from ffrfs.printable import printable
from ffrfs.view.page import Streamed, opened, page, render

_STREAMS_MAX = 4
_INTERVAL_S = 1.0
_ANSWER_S = 0.5
_FILES_MAX = 50


def live(request: Request) -> Response:
    place = _mountpoint(request)
    with Watched(place) as watched:
        return page(request, "live.html", _look(watched, place))


async def stream(request: Request) -> Response:
    place = _mountpoint(request)
    if request.app.state.streams >= _STREAMS_MAX:
        raise HTTPException(503, f"{_STREAMS_MAX} pages show this mount already: close one")
    return Streamed(_events(request, place), headers={"content-type": "text/event-stream"})


async def _events(request: Request, place: str) -> AsyncGenerator[bytes, None]:
    """Yield events until the client leaves, or the server ends."""

    def event() -> bytes:
        shown = render(request, "live_figures.html", _look(watched, place))
        return b"".join(b"data: %b\n" % line for line in shown.splitlines()) + b"\n"

    state = request.app.state
    state.streams += 1
    try:
        with Watched(place) as watched:
            while True:
                yield await anyio.to_thread.run_sync(event)
                await anyio.sleep(_INTERVAL_S)
    finally:
        state.streams -= 1


def _mountpoint(request: Request) -> str:
    place = opened(request).mountpoint
    if place is None:
        raise HTTPException(404, "This data set was not opened as a mount")
    return place


def _look(watched: Watched, place: str) -> dict[str, Any]:
    """Ask the daemon, and return the figures."""
    watched.ask()
    watched.wait(_ANSWER_S)
    look = next(iter(watched.looks()), None)
    answer, last = (look.answer, look.last) if look else (None, None)
    condition = look.condition if look else "gone"
    about = None
    if answer is not None:
        about = f"{printable(', '.join(answer.ways))}, mounted for {units.age(answer['age_s'])}"
    return {
        "mountpoint": place,
        "condition": condition,
        "advice": figures.advice(condition, place),
        "about": about,
        "rates": [*_rates(look)] if look else [],
        "meters": [one._asdict() for one in figures.meters(answer, last)] if answer else [],
        "sources": [*figures.sources(answer, last)] if answer and last else [],
        "error": figures.errors(answer) if answer else "",
        "unreadable": _unreadable(place) if answer and answer["unreadable_files"] else [],
        "kinds": [*_kinds(look)] if look and last else [],
    }


def _rates(look: Look) -> Iterator[dict[str, Any]]:
    for title, value, text in figures.RATES:
        values = by_second(look.activities, value, look.at_s, int(KEPT_S))
        now = value(look.last) if look.last else None
        known = [one for one in (*values, now) if one is not None]
        peak = 1.0 if text is units.percent else max(known, default=0.0)
        yield {
            "title": title,
            "now": text(now),
            "peak": text(peak if known else None),
            "shares": [None if one is None else one / peak if peak else 0.0 for one in values],
        }


def _kinds(look: Look) -> Iterator[dict[str, str]]:
    for kind, times in figures.recent_kinds(look.activities, look.at_s):
        slowest = (one.kinds[kind].slowest_us for one in look.activities if kind in one.kinds)
        yield {
            "kind": kind,
            "per_s": units.number(times.per_s),
            "p50": units.time(times.p50_us),
            "p99": units.time(times.p99_us),
            "slowest": units.time(max((one for one in slowest if one is not None), default=None)),
        }


def _unreadable(place: str) -> list[dict[str, Any]]:
    """Return the files whose reads failed, the latest first, as the daemon tells them."""
    with contextlib.suppress(MountError, KeyError, TypeError, ValueError):
        found: Any = ask(place, "errors", _ANSWER_S)["files"]
        return [
            {
                "path": str(one["path"]),
                "count": int(one["count"]),
                "ago": units.age(float(one["age_s"])),
                "error": printable(str(one["error"])),
            }
            for one in found[:_FILES_MAX]
        ]
    return []


ROUTES = [Route("/live", live), Route("/live/stream", stream)]
