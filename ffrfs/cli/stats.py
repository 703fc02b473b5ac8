"""`ffrfs stats`: show what a mount has done so far."""

from __future__ import annotations

import argparse
import contextlib
import re
import warnings
from collections.abc import Iterator
from typing import Any

from ffrfs.cli import output
from ffrfs.cli.parser import UsageError
from ffrfs.errors import MountError
from ffrfs.printable import printable

HELP = "show the statistics of a mount"
DESCRIPTION = """\
Show what the mount at MOUNTPOINT has done since it was mounted, how fast, and how much memory it
uses. The command asks the daemon, not the mount, so it also works while reads wait for a disk.
"""
EPILOG = """\
p50 and p99: 50 % and 99 % of the requests of a kind took at most this time; the value is at
most a quarter too high. Resident memory counts memory that processes share once for each of them.
slow: requests that took about a second (1.07 s) or longer; `ffrfs log` names their files.

--errors lists at most 1,000 files, those with the latest errors first. The count is of requests of
the kernel, several for one read of a program. `ffrfs verify` finds all damage in a pack.

--coverage: "announced" files were named by hints, "asked for" by requests of the kernel for their
beginning; "perhaps" came into its cache with neighbours, or by `ffrfs warm`. A read from that cache
is not seen. An order is the SHA-256 of one client's hints, a zero byte after each.

Examples:
    ffrfs stats /mnt/imagenet
    ffrfs stats --coverage --mark /mnt/imagenet
    ffrfs stats --errors /mnt/imagenet
"""


_ALWAYS = ("mount point", "pack", "served by", "log", "processes", "age")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("mountpoint", metavar="MOUNTPOINT", help="a mount of ffrfs")
    parser.add_argument(
        "--errors",
        action="store_true",
        help="list the files that could not be read, and why",
    )
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="count the files read since the mark, or the mount",
    )
    parser.add_argument(
        "--mark", action="store_true", help="with --coverage: count anew from now on"
    )
    parser.add_argument(
        *("-v", "--verbose"),
        action="store_true",
        help="also show rows that are zero, or 1,000 files never read",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a JSON object")
    form.add_argument(
        "--prometheus",
        action="store_true",
        help="print the text format of Prometheus, as mount --metrics-file writes it",
    )


def run(args: argparse.Namespace) -> int:
    from ffrfs.mount.client.control_client import ask

    if args.coverage and (args.errors or args.prometheus):
        raise UsageError("--coverage: has no --errors and no form for Prometheus")
    if args.mark and not args.coverage:
        raise UsageError("--mark: is for --coverage")
    if args.errors and args.prometheus:
        raise UsageError(
            "--errors has no form for Prometheus; ffrfs_unreadable_files is among its own"
        )
    found: dict[str, Any]
    if args.coverage:
        found = ask(args.mountpoint, "coverage", mark=int(args.mark))
        if args.verbose or args.json:
            found["never_files"] = _never_files(args.mountpoint, found)
    else:
        found = ask(args.mountpoint, "errors" if args.errors else "stats")
    if args.json:
        output.json_object(found)
        return 0
    with understood(args.mountpoint):
        lines = list(_lines(found, args))
    output.lines(lines)
    return 0


def _never_files(mountpoint: str, found: dict[str, Any]) -> list[str]:
    """Return the paths of the records that were never read, which the packs know."""
    from ffrfs.folder.tree import PackTree
    from ffrfs.mount.client.control_client import stats

    if not found["never_records"]:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the mount has given them
        tree = PackTree(stats(mountpoint)["packs"], on_conflict="first", allow_missing=True)
    with tree:
        is_same = tree.volume.record_count == found["records"]
        inos = {
            record: tree.volume.file_of(record) if is_same else 0
            for record in found["never_records"]
        }
        return [
            printable(tree.path(ino)) if ino else f"record {record}" for record, ino in inos.items()
        ]


def _coverage(found: dict[str, Any], is_verbose: bool) -> Iterator[str]:
    count, once, more = (found[name] for name in ("files", "hinted_once", "hinted_more"))
    read = once + more + found["requested_only"]
    since = "the mark" if found["is_marked"] else "the mount"
    share = f", {100 * read / count:.2f} % announced or asked for" if count else ""
    yield f"{'since':<16} {since}, {output.duration(found['age_s'])} ago"
    yield f"{'files':<16} {count:,}{share}"
    yield f"{'announced':<16} {once:,} once, {more:,} more often"
    yield f"{'asked for':<16} {found['requested']:,}, {found['requested_only']:,} not announced"
    yield f"{'perhaps':<16} {found['pushed_only']:,}"
    yield f"{'never':<16} {found['never']:,}"
    for order in found["orders"]:
        end = "" if order["is_complete"] else ", dropped at the end"
        yield f"{'order':<16} {output.count(order['hints'], 'hint')}, sha256 {order['sha256']}{end}"
    yield "Reads that the kernel answers from its cache are not seen; see ffrfs stats --help."
    if is_verbose:
        yield from (f"never: {path}" for path in found["never_files"])
        if left := found["never"] - len(found["never_files"]):
            yield f"and {left:,} more"


@contextlib.contextmanager
def understood(mountpoint: str) -> Iterator[None]:
    """Turn errors over a daemon's unexpected answer into one line."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError):
        raise MountError(
            f"{mountpoint}: the daemon has another version of ffrfs; to see its answer: "
            f"ffrfs stats --json {mountpoint}"
        ) from None


def _lines(found: dict[str, Any], args: argparse.Namespace) -> Iterator[str]:
    if args.coverage:
        yield from _coverage(found, args.verbose)
    elif args.errors:
        yield from _errors(found)
    elif args.prometheus:
        from ffrfs.mount.stats import metrics

        yield from metrics.prometheus(found).removesuffix("\n").split("\n")
    else:
        yield from _figures(found, args.verbose)


def _figures(found: dict[str, Any], is_verbose: bool) -> Iterator[str]:
    for title, value in _facts(found).items():
        if is_verbose or title in _ALWAYS or not _is_zero(value):
            yield f"{title:<16} {printable(value)}"
    yield from _table(found["requests"])


def _is_zero(value: str) -> bool:
    """Return whether a row has no number but zeros; the limit of an empty cache does not count."""
    numbers = re.findall(r"\d[\d,.]*", re.sub(r"\b0 bytes of \S+ \S+", "0", value))
    return bool(numbers) and not any(re.search("[1-9]", number) for number in numbers)


def _deaths(found: dict[str, Any]) -> dict[str, str]:
    if (worker := found.get("worker")) is None:
        return {}
    causes = ", ".join(f"{count:,} by {cause}" for cause, count in worker["causes"].items())
    return {
        "worker deaths": f"{worker['deaths']:,}{f' ({causes})' if causes else ''}, "
        f"{worker['resent']:,} requests resent, {worker['quarantined']:,} quarantined, longest "
        f"pause {worker['longest_pause_s']:g} s",
        "daemons before": f"{found.get('daemon_starts', 0):,}",
    }


def _facts(found: dict[str, Any]) -> dict[str, str]:
    hinted, ordered, around = found["prefetch"], found["readahead"], found["read_around"]
    worker = f", worker {found['worker_pid']}" if found["worker_pid"] is not None else ""
    fetcher = f", fetcher {found['fetcher_pid']}" if found["fetcher_pid"] is not None else ""
    engine = "" if found["engine"] == "native" else f", engine {found['engine']}"
    return {
        "mount point": found["mountpoint"],
        "pack": found["pack"],
        "served by": f"{output.count(found['threads'], 'thread')}, "
        f"transport {found['transport']}{engine}",
        "log": _log(found),
        "processes": f"daemon {found['daemon_pid']}{worker}{fetcher}",
        "age": output.duration(found["age_s"]),
        "requests": f"{found['request_count']:,}, lately {found['requests_per_s']:,.1f}/s",
        "served": f"{output.size(found['bytes_served'])} in {output.count(found['reads'], 'read')}",
        "from page cache": output.size(found["bytes_page_cache"]),
        "from storage": output.size(found["bytes_storage"]),
        "from memory": output.size(found["bytes_memory"]),
        "checksums": f"{found['checksums_verified']:,} verified, "
        f"{found['checksums_failed']:,} failed",
        **_deaths(found),
        "could not read": f"{output.count(found['unreadable_files'], 'file')}",
        "queue depth": f"{found['queue_depth']:,}",
        "prefetch": f"{hinted['hinted']:,} hinted, {hinted['fetched']:,} fetched, "
        f"{hinted['pushed']:,} pushed, {hinted['hit']:,} hit",
        "prefetch losses": f"{hinted['late']:,} late, {hinted['dropped']:,} dropped, "
        f"{hinted['too_large']:,} too large, {output.size(hinted['wasted_bytes'])} wasted; "
        f"queue depth reached {hinted['queue_depth_max']:,}",
        "readahead": f"{ordered['fetched']:,} fetched, {ordered['pushed']:,} pushed, "
        f"{ordered['hit']:,} hit, {output.size(ordered['wasted_bytes'])} wasted",
        "read around": f"{around['pushed']:,} pushed of {output.size(around['read_bytes'])}, "
        f"{around['controls_read']:,} of {around['controls']:,} controls read, "
        f"given up {output.count(around['given_up'], 'time')}",
        "pushed, unread": f"{output.size(around['unread_bytes'])} of "
        f"{output.size(found['pushed_limit_bytes'])}",
        **_remote(found["remote"], found["bytes_served"]),
        "cache": f"{output.size(found['cache_bytes'])} of "
        f"{output.size(found['cache_limit_bytes'])}",
        **_why_smaller(found),
        "resident memory": output.size(found["resident_bytes"]),
    }


_WHY_SMALLER = {
    "memory_pressure": "memory is short",
    "max_memory": "--max-memory leaves no more",
    "control_group": "the limit of its control group leaves no more",
}


def _why_smaller(found: dict[str, Any]) -> dict[str, str]:
    reason = found.get("cache_limited_by")  # a daemon of an earlier version does not say it
    if reason is None:
        return {}
    limit, asked = (output.size(found[f"cache_{name}_bytes"]) for name in ("limit", "asked"))
    return {"cache limit": f"{limit}, less than the {asked} asked for: {_WHY_SMALLER[reason]}"}


def _remote(remote: dict[str, int] | None, served_bytes: int) -> dict[str, str]:
    if remote is None:
        return {}
    times = f", {remote['bytes'] / served_bytes:,.2f} x what was read" if served_bytes else ""
    hit, fetched = remote["blocks_hit"], remote["blocks_fetched"]
    share = f" ({100 * hit / (hit + fetched):.0f} %)" if hit + fetched else ""
    held = (
        "in memory, its directory cannot be used"
        if remote["in_memory"]
        else f"{output.size(remote['cache_bytes'])} of {output.size(remote['cache_limit_bytes'])}"
    )
    requests = output.count(remote["requests"], "request")
    failed = remote.get("fill_given_up", 0)  # a daemon of an earlier version does not say it
    again = f", {failed:,} failed (`ffrfs prefetch --all` tries them again)" if failed else ""
    return {
        "fetched": f"{output.size(remote['bytes'])} in {requests}{times}, "
        f"{output.count(remote['ranges'], 'range')} under way",
        "fetch losses": f"{remote['retries']:,} retried, {remote['throttled']:,} of them "
        f"throttled, {remote['errors']:,} failed",
        "block cache": f"{held}; {hit:,} hit{share}, {fetched:,} fetched, "
        f"{remote['blocks_again']:,} fetched again",
        "left to fetch": f"{output.count(remote['fill_left'], 'block')}{again}",
    }


def _log(found: dict[str, Any]) -> str:
    if found["log_file"] is not None:
        return str(found["log_file"])
    if found["journal"] is not None:
        from ffrfs.mount.client.mount_log import journal_command

        return journal_command(found["journal"])
    return "standard error of the daemon"


def _errors(found: dict[str, Any]) -> Iterator[str]:
    if found["files"]:
        yield f"{'count':>8}{'ago':>12}  path: error"
    for each in found["files"]:
        ago, text = output.duration(each["age_s"]), f"{each['path']}: {each['error']}"
        yield f"{each['count']:>8,}{ago:>12}  {printable(text)}"
    if found["other_count"]:
        yield f"and {output.count(found['other_count'], 'failure')} to read other files"


def _table(requests: dict[str, dict[str, Any]]) -> Iterator[str]:
    from ffrfs.mount.stats import units

    if not any(times["count"] for times in requests.values()):
        return
    yield ""
    yield f"{'request':<12}{'count':>14}{'p50':>12}{'p99':>12}{'slow':>12}"
    for kind, times in requests.items():
        if times["count"]:
            p50, p99 = units.time(times["p50_us"]), units.time(times["p99_us"])
            yield f"{kind:<12}{times['count']:>14,}{p50:>12}{p99:>12}{times['slow']:>12,}"
