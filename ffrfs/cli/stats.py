"""`ffrfs stats`: what a mount has done so far."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ffrfs.cli import output
from ffrfs.errors import MountError

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EPILOG = """\
p50 and p99: the time within which 50 and 99 of 100 requests of a kind were answered; it
is at most a quarter too long. Resident memory counts what processes share in each.
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "stats",
        help="show what a mount has done and how fast",
        description="Show what the mount at MOUNTPOINT has done since it was made, and what it "
        "holds. Asks its daemon, not the mount: works while reads wait for a disk.",
        epilog=_EPILOG,
    )
    parser.add_argument("mountpoint", metavar="MOUNTPOINT")
    parser.add_argument("--json", action="store_true", help="as a JSON object")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from ffrfs.mount.control_client import ask

    found: dict[str, Any] = ask(args.mountpoint, "stats")
    if args.json:
        output.json_object(found)
        return 0
    try:
        lines = [f"{title:<16} {value}" for title, value in _facts(found).items()]
        lines += _table(found["requests"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise MountError(
            f"{args.mountpoint}: its daemon is of another version; see what it says with --json"
        ) from None
    for line in lines:
        output.line(line)
    return 0


def _facts(found: dict[str, Any]) -> dict[str, str]:
    hinted, ordered = found["prefetch"], found["readahead"]
    worker = f", worker {found['worker_pid']}" if found["worker_pid"] is not None else ""
    return {
        "mount point": found["mountpoint"],
        "pack": found["pack"],
        "engine": f"{found['engine']}, {output.count(found['threads'], 'thread')}",
        "processes": f"daemon {found['daemon_pid']}{worker}",
        "age": _duration(found["age_s"]),
        "requests": f"{found['request_count']:,}",
        "served": f"{_size(found['bytes_served'])} in {output.count(found['reads'], 'read')}",
        "from page cache": _size(found["bytes_page_cache"]),
        "from storage": _size(found["bytes_storage"]),
        "from memory": _size(found["bytes_memory"]),
        "checksums": f"{found['checksums_verified']:,} verified, "
        f"{found['checksums_failed']:,} failed",
        "queue depth": f"{found['queue_depth']:,}",
        "prefetch": f"{hinted['hinted']:,} hinted, {hinted['fetched']:,} fetched, "
        f"{hinted['pushed']:,} pushed, {hinted['hit']:,} hit",
        "prefetch losses": f"{hinted['late']:,} late, {hinted['dropped']:,} dropped, "
        f"{_size(hinted['wasted_bytes'])} wasted; queue depth reached "
        f"{hinted['queue_depth_max']:,}",
        "readahead": f"{ordered['fetched']:,} fetched, {ordered['pushed']:,} pushed, "
        f"{ordered['hit']:,} hit, {_size(ordered['wasted_bytes'])} wasted",
        "cache": f"{_size(found['cache_bytes'])} of {_size(found['cache_limit_bytes'])}",
        "resident memory": _size(found["resident_bytes"]),
    }


def _table(requests: dict[str, dict[str, Any]]) -> Iterator[str]:
    if not any(times["count"] for times in requests.values()):
        return
    yield ""
    yield f"{'request':<12}{'count':>14}{'p50':>12}{'p99':>12}"
    for kind, times in requests.items():
        if times["count"]:
            p50, p99 = _time(times["p50_us"]), _time(times["p99_us"])
            yield f"{kind:<12}{times['count']:>14,}{p50:>12}{p99:>12}"


def _size(size_bytes: float) -> str:
    """Return "812 bytes" or "1.2 GiB"."""
    if size_bytes < 1024:
        return output.count(int(size_bytes), "byte")
    units = iter(("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))
    while size_bytes >= 1024:
        size_bytes /= 1024
        unit = next(units)
    return f"{size_bytes:.1f} {unit}"


def _time(time_us: float) -> str:
    """Return "12 us", "3.4 ms" or "1.2 s"."""
    if time_us < 1000:
        return f"{math.ceil(time_us)} us"
    if time_us < 1_000_000:
        return f"{time_us / 1000:.1f} ms"
    return f"{time_us / 1_000_000:.1f} s"


def _duration(time_s: float) -> str:
    """Return "3 d 04:05:06", without the days if there are none."""
    minutes, seconds = divmod(int(time_s), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{f'{days} d ' if days else ''}{hours:02}:{minutes:02}:{seconds:02}"
