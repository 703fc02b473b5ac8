"""`ffrfs umount`: unmount, live and dead mounts."""

from __future__ import annotations

import argparse

from ffrfs.cli import output
from ffrfs.cli.parser import ConfigOption, UsageError
from ffrfs.errors import describe
from ffrfs.mount.client.unmount import Unmounted, unmount, unmount_all, unmount_dead
from ffrfs.mount.config.config import make_config
from ffrfs.mount.config.request import find_mountpoint
from ffrfs.mount.config.settings import parse_setting

HELP = "unmount, even if the daemon has died"
DESCRIPTION = """\
Unmount MOUNTPOINT. A busy mount disappears at once; its daemon ends when the last open file is
closed. The command also removes a mount whose daemon has died.
"""
EPILOG = """\
Examples:
    ffrfs umount /mnt/imagenet
    ffrfs umount --all
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument(
        "--config",
        metavar="FILE",
        action=ConfigOption,
        may_be_left_out=[which],
        help="unmount the mount of `ffrfs mount --config FILE`, if MOUNTPOINT is omitted",
    )


def run(args: argparse.Namespace) -> int:
    if args.config is not None and (args.all or args.dead is not None):
        raise UsageError("--config: not allowed with --all or --dead")
    if args.dead is not None:
        if notice := unmount_dead(args.dead):
            output.error(notice)
        return 0
    if not args.all:
        mountpoint = _mountpoint(args)
        _tell(mountpoint, unmount(mountpoint))
        return 0
    status = 0
    for mountpoint, outcome in unmount_all():
        if isinstance(outcome, Exception):
            output.error(describe(outcome))
            status = 1
        else:
            _tell(mountpoint, outcome)
    return status


def _mountpoint(args: argparse.Namespace) -> str:
    if args.config is None:
        return str(args.mountpoint)
    settings = parse_setting("config", args.config)
    return find_mountpoint(make_config(mountpoint=args.mountpoint, settings=settings))


def _tell(mountpoint: str, done: Unmounted) -> None:
    if done.was_busy:
        output.error(
            f"{mountpoint}: busy, so detached; its daemon ends when the last open file is closed"
        )
    if done.notice is not None:
        output.error(done.notice)
