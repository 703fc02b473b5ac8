"""`ffrfs top`: mounts at work, once a second.

Here: the arguments, and the plain lines of --batch. The screen is ffrfs/top.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ffrfs.cli import output, stats
from ffrfs.cli.number import whole_number
from ffrfs.errors import MountError

if TYPE_CHECKING:
    from ffrfs.mount.stats.stats_delta import StatsDelta


INTERVAL_S = 1.0
_ANSWERS_S = 0.5  # for the answers of all daemons, for --batch

HELP = "watch mounts at work"
DESCRIPTION = """\
Show once a second what the mounts of this user (for root: of all users) are doing. With MOUNTPOINT
show one mount: bytes, requests, latency and hit rate of the last minute, memory, and requests by
kind. Without a terminal the figures are plain lines; the first ones of a MOUNTPOINT cover the whole
time since mounting. The command asks the daemons, not the mounts, so it works while mounts hang.
"""
EPILOG = """\
Press h for the keys, q or Ctrl-C to end. p50 and p99: 50 % and 99 % of the requests in the
interval took at most this time. HIT, hit rate: the share of the bytes that readers got without
waiting for the storage. With --batch, hit is, for prefetch, the share of hinted reads that found
their file ready, and for readahead the share of all reads that were read ahead without a hint.
pushed: stored in the page cache of the kernel, so that reads of these files need no request.

Examples:
    ffrfs top
    ffrfs top /mnt/imagenet
    ffrfs top --count 60 /mnt/imagenet > minute.txt
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "mountpoint", metavar="MOUNTPOINT", nargs="?", help="a mount of ffrfs; without it: all"
    )
    parser.add_argument(
        "--batch",
        action="store_true",
        help="print the figures as plain lines, one set after the other; the default without a "
        "terminal",
    )
    parser.add_argument(
        "-n",
        "--count",
        metavar="COUNT",
        type=whole_number(1),
        help="print the figures COUNT times, as with --batch, and end",
    )


def run(args: argparse.Namespace) -> int:
    from ffrfs.top.screen import is_usable

    if args.batch or args.count is not None or not is_usable(sys.stdin, sys.stdout):
        _print(_looks(args.mountpoint) if args.mountpoint else _tables(), args.count)
        return 0
    _watch(args.mountpoint)
    return 0


def _watch(mountpoint: str | None) -> None:
    """On the terminal, until the user ends it."""
    try:
        from ffrfs.top.watch import Watch
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rich":
            raise
        raise MountError(
            "top draws its screen with the package rich; to install it: pip install rich. Plain "
            "lines need nothing: ffrfs top --batch"
        ) from None
    from ffrfs.mount.client.control_client import ask
    from ffrfs.mount.client.found_mounts import find_places
    from ffrfs.mount.client.watched import Watched
    from ffrfs.mount.kernel.mountpoint import canonical
    from ffrfs.top.screen import Screen

    place = canonical(mountpoint) if mountpoint else None
    if place and place not in {found.mountpoint for found in find_places()}:
        ask(place, "status")  # it says in one line, and without a screen, what is wrong
    with (
        Watched(place) as watched,
        contextlib.suppress(KeyboardInterrupt),
        Screen(sys.stdin, sys.stdout) as screen,
    ):
        Watch(screen, sys.stdout, watched, is_alone=place is not None).run()


def _print(looks: Iterator[list[str]], count: int | None) -> None:
    for number in itertools.count() if count is None else range(count):
        if number:
            time.sleep(INTERVAL_S)
            output.line("")
        output.lines(next(looks))
        sys.stdout.flush()


def _tables() -> Iterator[list[str]]:
    """All mounts, a line each, time after time."""
    from ffrfs.mount.client.watched import Watched
    from ffrfs.top.columns import table

    with Watched() as watched:
        for number in itertools.count():
            watched.ask()
            watched.wait(_ANSWERS_S)
            if number:
                yield table(watched.looks())
            else:  # there are no figures before the second answer
                time.sleep(INTERVAL_S)


def _looks(mountpoint: str) -> Iterator[list[str]]:
    """The lines of one look after the other; asks for each when it is wanted."""
    from ffrfs.mount.client.control_client import ask
    from ffrfs.mount.stats.stats_delta import StatsDelta

    before = None
    while True:
        found: dict[str, Any] = ask(mountpoint, "stats")
        with stats.understood(mountpoint):
            lines = _lines(found, StatsDelta(before, found))
        yield lines
        before = found


def _lines(found: dict[str, Any], interval: StatsDelta) -> list[str]:
    head = (
        f"{found['mountpoint']}  {found['engine']}, {output.count(found['threads'], 'thread')}, "
        f"transport {found['transport']}, mounted for {output.duration(found['age_s'])}"
    )
    when = "since then:" if interval.is_since_mount else f"in the last {interval.time_s:.1f} s:"
    facts = [f"{title:<12}{text}" for title, text in _facts(found, interval).items()]
    return [head, when, *facts, *_table(found["requests"], interval)]


def _facts(found: dict[str, Any], interval: StatsDelta) -> dict[str, str]:
    hit, late = (interval.growth("prefetch", name) for name in ("hit", "late"))
    return {
        "served": f"{_rate(interval, 'bytes_served')} in {interval.per_s('reads'):,.0f} reads/s",
        "page cache": _rate(interval, "bytes_page_cache"),
        "storage": f"{_rate(interval, 'bytes_storage')}, queue depth {found['queue_depth']:,}",
        "memory": _rate(interval, "bytes_memory"),
        "checksums": f"{interval.per_s('checksums_verified'):,.0f}/s verified, "
        f"{found['checksums_failed']:,} failed since it was mounted",
        "prefetch": f"{_ahead(interval, 'prefetch')}, {_percent(hit, hit + late)} hit",
        "readahead": f"{_ahead(interval, 'readahead')}, "
        f"{_percent(interval.growth('readahead', 'hit'), interval.growth('reads'))} hit",
        "around": f"{interval.per_s('read_around', 'pushed'):,.0f}/s pushed, "
        f"{output.size(found['read_around']['unread_bytes'])} unread",
        **(_fetched(interval) if interval.has("remote") else {}),
        "cache": f"{output.size(found['cache_bytes'])} of "
        f"{output.size(found['cache_limit_bytes'])}",
        "resident": _resident(found),
    }


def _fetched(interval: StatsDelta) -> dict[str, str]:
    hit, fetched = (interval.growth("remote", f"blocks_{event}") for event in ("hit", "fetched"))
    again = ", ".join(
        f"{interval.per_s('remote', name):,.0f}/s {text}"
        for name, text in (("retries", "retried"), ("throttled", "throttled"), ("errors", "failed"))
    )
    return {
        "fetched": f"{_rate(interval, 'remote', 'bytes')}, {again}, "
        f"{_percent(hit, hit + fetched)} of the blocks were in the cache"
    }


def _rate(interval: StatsDelta, *names: str) -> str:
    return f"{output.size(interval.per_s(*names))}/s"


def _ahead(interval: StatsDelta, way: str) -> str:
    fetched, pushed = (interval.per_s(way, name) for name in ("fetched", "pushed"))
    wasted = output.size(interval.per_s(way, "wasted_bytes"))
    return f"{fetched:,.0f}/s fetched, {pushed:,.0f}/s pushed, {wasted}/s wasted"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole > 0 else "-"


def _resident(found: dict[str, Any]) -> str:
    text = output.size(found["resident_bytes"])
    limit, pressure = found["memory_limit_bytes"], found["memory_pressure"]
    text += f" of {output.size(limit)}" if limit is not None else ""
    return text + (f", memory pressure {pressure:.1f} %" if pressure is not None else "")


def _table(requests: dict[str, Any], interval: StatsDelta) -> Iterator[str]:
    """The kinds of requests that there ever were."""
    yield ""
    yield f"{'request':<12}{'per s':>14}{'p50':>12}{'p99':>12}"
    total = interval.per_s("request_count")
    yield f"{'all':<12}{total:>14,.1f}"
    for kind in (kind for kind, times in requests.items() if times["count"]):
        times = interval.times(kind)
        p50, p99 = (
            "-" if time_us is None else output.time(time_us)
            for time_us in (times.p50_us, times.p99_us)
        )
        yield f"{kind:<12}{times.per_s:>14,.1f}{p50:>12}{p99:>12}"
