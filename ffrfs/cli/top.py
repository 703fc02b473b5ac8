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
from typing import TYPE_CHECKING

from ffrfs.cli import output, stats
from ffrfs.cli.number import whole_number
from ffrfs.errors import MissingPackageError

if TYPE_CHECKING:
    from ffrfs.mount.stats.activity import Activity, Answer

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
        _print(_tables() if args.mountpoint is None else _looks(args.mountpoint), args.count)
        return 0
    _watch(args.mountpoint)
    return 0


def _watch(mountpoint: str | None) -> None:
    """Watch on the terminal, until the user ends it."""
    try:
        from ffrfs.top.watch import Watch
    except ModuleNotFoundError:
        raise MissingPackageError.of(
            "the screen needs the package rich, and plain lines do not (ffrfs top --batch)",
            "terminal",
        ) from None
    from ffrfs.mount.client.control_client import ask
    from ffrfs.mount.client.found_mounts import find_mounts
    from ffrfs.mount.client.watched import Watched
    from ffrfs.mount.kernel.mountpoint import canonical
    from ffrfs.top.screen import Screen

    place = canonical(mountpoint) if mountpoint else None
    if place and place not in {found.mountpoint for found in find_mounts()}:
        ask(place, "status")  # raises an error of one line before the screen is drawn
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
        output.flush()


def _tables() -> Iterator[list[str]]:
    """Yield the table of all mounts, a line each, again and again."""
    from ffrfs.mount.client.watched import Watched
    from ffrfs.top.columns import COLUMNS, table

    right = [column.title for column in COLUMNS if column.is_number]
    with Watched() as watched:
        for number in itertools.count():
            watched.ask()
            watched.wait(_ANSWERS_S)
            if number:
                yield [*output.table(table(watched.looks()), right)]
            else:  # the second answer gives the first figures
                time.sleep(INTERVAL_S)


def _looks(mountpoint: str) -> Iterator[list[str]]:
    """Yield the lines of one look after the other; asks the daemons for each when it is due."""
    from ffrfs.mount.client.control_client import ask
    from ffrfs.mount.stats.activity import activity, read_answer

    before = None
    while True:
        found = ask(mountpoint, "stats")
        with stats.understood(mountpoint):
            answer = read_answer(found)
            lines = [*_lines(str(found["mountpoint"]), answer, activity(before, answer))]
        yield lines
        before = answer


def _lines(mountpoint: str, answer: Answer, done: Activity) -> Iterator[str]:
    yield (
        f"{mountpoint}  {', '.join(answer.ways)}, "
        f"{output.count(int(answer['threads']), 'thread')}, "
        f"mounted for {output.duration(answer['age_s'])}"
    )
    yield "since then:" if done.is_since_mount else f"in the last {done.time_s:.1f} s:"
    for title, text in _facts(answer, done).items():
        yield f"{title:<12}{text}"
    yield from _table(answer, done)


def _facts(answer: Answer, done: Activity) -> dict[str, str]:
    hit = done.share("prefetch.hit", "prefetch.late")
    reads = done.growth["reads"]
    ahead = done.growth.get("readahead.hit", 0) / reads if reads else None
    return {
        "served": f"{_rate(done, 'bytes_served')} in {done.per_s('reads'):,.0f} reads/s",
        "page cache": _rate(done, "bytes_page_cache"),
        "storage": f"{_rate(done, 'bytes_storage')}, queue depth {answer['queue_depth']:,.0f}",
        "memory": _rate(done, "bytes_memory"),
        "checksums": f"{done.per_s('checksums_verified'):,.0f}/s verified, "
        f"{answer['checksums_failed']:,.0f} failed since it was mounted",
        "prefetch": f"{_ahead(done, 'prefetch')}, {_percent(hit)} hit",
        "readahead": f"{_ahead(done, 'readahead')}, {_percent(ahead)} hit",
        "around": f"{done.per_s('read_around.pushed'):,.0f}/s pushed, "
        f"{output.size(answer['read_around.unread_bytes'])} unread",
        **(_fetched(done) if "remote.bytes" in done.growth else {}),
        "cache": f"{output.size(answer['cache_bytes'])} of "
        f"{output.size(answer['cache_limit_bytes'])}",
        "resident": _resident(answer),
    }


def _fetched(done: Activity) -> dict[str, str]:
    again = ", ".join(
        f"{done.per_s(f'remote.{name}'):,.0f}/s {text}"
        for name, text in (("retries", "retried"), ("throttled", "throttled"), ("errors", "failed"))
    )
    hit = done.share("remote.blocks_hit", "remote.blocks_fetched")
    return {
        "fetched": f"{_rate(done, 'remote.bytes')}, {again}, "
        f"{_percent(hit)} of the blocks were in the cache"
    }


def _rate(done: Activity, name: str) -> str:
    return f"{output.size(done.per_s(name))}/s"


def _ahead(done: Activity, way: str) -> str:
    fetched, pushed = (done.per_s(f"{way}.{name}") for name in ("fetched", "pushed"))
    wasted = _rate(done, f"{way}.wasted_bytes")
    return f"{fetched:,.0f}/s fetched, {pushed:,.0f}/s pushed, {wasted} wasted"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _resident(answer: Answer) -> str:
    text = output.size(answer["resident_bytes"])
    limit, pressure = (
        answer.numbers.get(name) for name in ("memory_limit_bytes", "memory_pressure")
    )
    text += f" of {output.size(limit)}" if limit is not None else ""
    return text + (f", memory pressure {pressure:.1f} %" if pressure is not None else "")


def _table(answer: Answer, done: Activity) -> Iterator[str]:
    """Yield the table of the kinds of requests that have occurred."""
    from ffrfs.mount.stats import units
    from ffrfs.mount.stats.activity import NO_REQUESTS

    yield ""
    yield f"{'request':<12}{'per s':>14}{'p50':>12}{'p99':>12}"
    yield f"{'all':<12}{done.times.per_s:>14,.1f}"
    for kind in (kind for kind, buckets in answer.buckets.items() if buckets):
        times = done.kinds.get(kind, NO_REQUESTS)
        p50, p99 = units.time(times.p50_us), units.time(times.p99_us)
        yield f"{kind:<12}{times.per_s:>14,.1f}{p50:>12}{p99:>12}"
