"""`ffrfs ps`: list mounts, and their states."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from ffrfs.cli import output

if TYPE_CHECKING:
    from ffrfs.mount.client.mount_statuses import MountStatus

HELP = "list the mounts of this user, live and dead"
DESCRIPTION = """\
List the mounts of this user. The command asks the daemons, not the mounts, so it ends within two
seconds even if mounts hang.
"""
EPILOG = """\
A mount is live; failing (all its reads fail: see `ffrfs check`); dead (its daemon has ended;
`ffrfs umount`, or mounting there again, removes the mount); detached (another program unmounted it;
the daemon serves it until the last open file is closed); not answering (its daemon runs but does
not answer); or unknown (this user mounted it, and no daemon is known for it).

A pack that is "changed at its origin" was replaced at its URL: reads of blocks that are not in the
cache fail; mount again to see the new pack.

With -l, WORKER is the process that serves reads, TRANSPORT is uring (FUSE over io_uring) or dev
(/dev/fuse), and LOG is the file of its log, or "journal"; `ffrfs log` shows it.

Examples:
    ffrfs ps
    ffrfs ps --json
"""
_TITLES = ("STATE", "PID", "WORKER", "TRANSPORT", "AGE", "REQ/S", "MOUNTPOINT", "LOG", "PACKS")
_LONG = ("WORKER", "TRANSPORT", "LOG")  # only with -l
_TO_THE_RIGHT = ("PID", "WORKER", "AGE", "REQ/S")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        *("-l", "--long"), action="store_true", help="also show WORKER, TRANSPORT and LOG"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON array")


def run(args: argparse.Namespace) -> int:
    from ffrfs.mount.client.mount_statuses import mount_statuses

    found = mount_statuses()
    if args.json:
        output.json_array(map(asdict, found))
    elif found:
        rows = [dict(zip(_TITLES, row, strict=True)) for row in (_TITLES, *map(_row, found))]
        shown = [title for title in _TITLES if args.long or title not in _LONG]
        lines = [tuple(row[title] for title in shown) for row in rows]
        output.lines(output.table(lines, _TO_THE_RIGHT))
    return 0


def _row(mount: MountStatus) -> tuple[str, ...]:
    return (
        mount.state,
        "-" if mount.pid is None else str(mount.pid),
        "-" if mount.worker_pid is None else str(mount.worker_pid),
        mount.transport or "-",
        "-" if mount.age_s is None else output.duration(mount.age_s),
        "-" if mount.requests_per_s is None else f"{mount.requests_per_s:,.1f}",
        mount.mountpoint,
        mount.log_file or ("-" if mount.journal is None else "journal"),
        " ".join(mount.packs) + (" (changed at its origin)" if mount.changed_objects else ""),
    )
