"""`ffrfs umount`: take mounts away, alive or dead."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ffrfs.cli import output
from ffrfs.mount.report import describe
from ffrfs.mount.unmount import unmount, unmount_all, unmount_dead

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "umount",
        help="unmount, also after the daemon has died",
        description="Unmount MOUNTPOINT. If it is busy, it disappears at once, and its daemon "
        "ends when the last open file is closed. Works after the daemon has died, too.",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("mountpoint", metavar="MOUNTPOINT", nargs="?")
    which.add_argument(
        "--all",
        action="store_true",
        help="all mounts of this user, live and dead, and dead ones that no daemon is known for "
        "(for root: of anybody); goes on after a failure",
    )
    which.add_argument(
        "--dead",
        metavar="MOUNTPOINT",
        help="unmount MOUNTPOINT only if its daemon has died; anything else, or nothing, is left "
        "as it is, and is no failure",
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    if args.dead is not None:
        if notice := unmount_dead(args.dead):
            output.error(notice)
        return 0
    if not args.all:
        _tell(args.mountpoint, busy=unmount(args.mountpoint))
        return 0
    status = 0
    for mountpoint, outcome in unmount_all():
        if isinstance(outcome, Exception):
            output.error(describe(outcome))
            status = 1
        else:
            _tell(mountpoint, busy=outcome)
    return status


def _tell(mountpoint: str, *, busy: bool) -> None:
    if busy:
        output.error(
            f"{mountpoint}: was busy: detached; its daemon ends when the last open file is closed"
        )
