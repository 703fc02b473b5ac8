"""`ffrfs log`: show the log of a mount."""

from __future__ import annotations

import argparse
import os

from ffrfs.cli import output

HELP = "show the log of a mount, also of one that has ended"
DESCRIPTION = """\
Show the log of the mount at MOUNTPOINT, or of the last one that was there. The mount may be live,
dead or unmounted; the command does not touch it.
"""
EPILOG = """\
A mount logs to the file of --log-file. Without --log-file it has a log of its own, at most 1 MiB
and 1 MiB that is older; the mounts of one MOUNTPOINT share it, and each line has the number of
its daemon. This log stays for a week after the mount has ended. The log of a mount that runs in
the foreground under systemd is in the journal; the command names the call of journalctl.

A request that took about a second (1.07 s) or longer is a line with its kind, its time, the file or
directory and the pack: "slow read: 1530 ms for a/b.jpg, from /data/x.ffr". At most 10 lines of one
cause are logged in 30 seconds; `ffrfs stats` has the number of slow requests.

Examples:
    ffrfs log /mnt/imagenet
    ffrfs log -f /mnt/imagenet
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("mountpoint", metavar="MOUNTPOINT", help="a mount of ffrfs, now or before")
    parser.add_argument(
        *("-f", "--follow"),
        action="store_true",
        help="go on with new lines as they come, until the mount has ended",
    )


def run(args: argparse.Namespace) -> int:
    from ffrfs.mount.client.mount_log import find_log, read_log

    for lines in read_log(find_log(args.mountpoint), follow=args.follow):
        output.lines(map(os.fsdecode, lines))
        output.flush()
    return 0
