"""`ffrfs restart`: let a new process serve a mount, while programs go on reading."""

from __future__ import annotations

import argparse

HELP = "let a new process serve a mount, under its readers"
DESCRIPTION = """\
Replace the processes of the mount at MOUNTPOINT by new processes, for example of a version
that was installed meanwhile.
"""
EPILOG = """\
Programs see only a pause: open files, working directories and the cache of the kernel stay. The
new worker opens the packs first, and they must be the packs that were mounted; if that fails, or
takes more than 10 seconds, the present worker serves on. A mount whose workers died one after the
other, and whose reads all fail, gets a new try; so do files that ended the worker. The daemon is
replaced after the worker, but not in the foreground (mount -f), where no process would start a new
one.

Examples:
    ffrfs restart /mnt/imagenet
    ffrfs restart ~/data
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("mountpoint", metavar="MOUNTPOINT", help="a mount of ffrfs")


def run(args: argparse.Namespace) -> int:
    from ffrfs.mount.client.restart import restart

    restart(args.mountpoint)
    return 0
