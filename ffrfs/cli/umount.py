"""`ffrfs umount`: take a mount away, alive or dead."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ffrfs.cli import output
from ffrfs.mount.unmount import unmount

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "umount",
        help="unmount, also after the daemon has died",
        description="Unmount MOUNTPOINT. If it is busy, it disappears at once, and its daemon "
        "ends when the last open file is closed. Works after the daemon has died, too.",
    )
    parser.add_argument("mountpoint", metavar="MOUNTPOINT")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    if unmount(args.mountpoint):
        output.error(
            f"{args.mountpoint}: was busy: detached; "
            "its daemon ends when the last open file is closed"
        )
    return 0
