"""`ffrfs demo`: the first five minutes without a checkout: pack, mount, read, unmount.

It runs the commands that it shows, so that each can be tried again. The mount is read by child
processes, which have a time limit.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile

from ffrfs.cli import output
from ffrfs.cli.cleaning_up import cleaning_up
from ffrfs.errors import MountError, PackError, naming
from ffrfs.mount.client.unmount import unmount
from ffrfs.mount.kernel.mount_table import mount_at
from ffrfs.mount.kernel.mountpoint import canonical

HELP = "try it: make a small data set, pack it, mount it, read it"
DESCRIPTION = """\
Make a small data set in DIR, pack it, mount the pack, read it, show what the mount has done, and
unmount it. Each command is shown before it runs.
"""
EPILOG = """\
Without DIR, everything is in a temporary directory, and is removed at the end.

Examples:
    ffrfs demo
    ffrfs demo /tmp/ffrfs-demo
"""

_CLASSES = ("cat", "dog")
_COUNT = 100  # files of each
_TIMEOUT_S = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory",
        metavar="DIR",
        nargs="?",
        help="a directory to make, whose files stay (default: a temporary one)",
    )


def run(args: argparse.Namespace) -> int:
    with cleaning_up():
        if args.directory is None:
            with tempfile.TemporaryDirectory(
                prefix="ffrfs-demo-", ignore_cleanup_errors=True
            ) as folder:
                _show(folder)
            return 0
        try:
            os.makedirs(args.directory)
        except FileExistsError:
            raise PackError(f"{args.directory}: exists already; name a new directory") from None
        _show(args.directory)
    return 0


def _show(folder: str) -> None:
    output.line(f"A data set of {len(_CLASSES) * _COUNT} small files in {folder}:")
    _make(os.path.join(folder, "pets"))
    ours = [sys.executable, "-m", "ffrfs"]
    _run("one file for all of them", folder, [*ours, "pack", "pets", "pets.ffr"])
    if not os.path.exists("/dev/fuse"):
        _run("read without a mount", folder, [*ours, "cat", "pets.ffr", "cat/000.txt"])
        raise MountError("there is no /dev/fuse here, so nothing is mounted: modprobe fuse")
    place = canonical(os.path.join(folder, "mnt"))
    try:
        _run(
            "the pack as a directory, for any program", folder, [*ours, "mount", "pets.ffr", "mnt"]
        )
        _run("an ordinary program lists it", folder, ["ls", "mnt/cat", "-w", "70", "-C"], lines=2)
        _run("and reads all of it: no difference", folder, ["diff", "-r", "pets", "mnt"])
        _run("what the mount has done", folder, [*ours, "top", "--batch", "-n", "1", "mnt"], 5)
        _run("the end", folder, [*ours, "umount", "mnt"])
    finally:
        if mount_at(place) is not None:  # something went wrong, or a signal came
            unmount(place)
    output.lines(
        [
            "",
            "Next, with your data:",
            "    ffrfs pack ~/data data.ffr         one file, which appears when it is whole",
            "    ffrfs mount data.ffr /mnt/data     your programs read /mnt/data as before",
            "    ffrfs view data.ffr                look at it in a browser",
            "    man ffrfs, ffrfs COMMAND --help",
        ]
    )


def _make(folder: str) -> None:
    for name in _CLASSES:
        os.makedirs(os.path.join(folder, name))
        for number in range(_COUNT):
            path = os.path.join(folder, name, f"{number:03}.txt")
            with naming(path), open(path, "w") as file:
                file.write(f"{name} {number}\n" * (number + 1))


def _run(what: str, folder: str, command: list[str], lines: int = 3) -> None:
    """Show a command, run it, and print the first lines of its output. Raises MountError."""
    shown = ["ffrfs", *command[3:]] if command[0] == sys.executable else command
    output.line(f"\n# {what}\n$ {shlex.join(shown)}")
    output.flush()
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise MountError(f"{shlex.join(shown)}: took more than {_TIMEOUT_S} s") from None
    said = done.stdout.decode(errors="replace").splitlines()
    output.lines(said[:lines])
    if len(said) > lines:
        output.line(f"… {len(said) - lines} more")
    if done.returncode:
        raise MountError(f"{shlex.join(shown)}: ended with status {done.returncode}")
