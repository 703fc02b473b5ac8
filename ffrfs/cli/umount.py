"""`ffrfs umount`: take mounts away, alive or dead."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ffrfs.cli import output
from ffrfs.errors import describe
from ffrfs.mount.client.unmount import Unmounted, unmount, unmount_all, unmount_dead

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "umount",
        help="unmount, even if the daemon has died",
        description="Unmount MOUNTPOINT. A busy mount disappears at once; its daemon ends when the "
        "last open file is closed. The command also removes a mount whose daemon has died.",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("mountpoint", metavar="MOUNTPOINT", nargs="?", help="a mount of ffrfs")
    which.add_argument(
        "--all",
        action="store_true",
        help="unmount all mounts of this user, live and dead, and dead mounts without a known "
        "daemon (for root: of all users); go on after a failure",
    )
    which.add_argument(
        "--dead",
        metavar="MOUNTPOINT",
        help="unmount MOUNTPOINT only if its daemon has died; otherwise change nothing and succeed",
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    if args.dead is not None:
        if notice := unmount_dead(args.dead):
            output.error(notice)
        return 0
    if not args.all:
        _tell(args.mountpoint, unmount(args.mountpoint))
        return 0
    status = 0
    for mountpoint, outcome in unmount_all():
        if isinstance(outcome, Exception):
            output.error(describe(outcome))
            status = 1
        else:
            _tell(mountpoint, outcome)
    return status


def _tell(mountpoint: str, done: Unmounted) -> None:
    if done.was_busy:
        output.error(
            f"{mountpoint}: was busy: detached; its daemon ends when the last open file is closed"
        )
    if done.notice is not None:
        output.error(done.notice)
