"""`ffrfs prefetch`: hints for a mount, from arguments, files and pipes."""

from __future__ import annotations

import argparse
import os
import re
import select
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ffrfs.cli import output
from ffrfs.cli.parser import UsageError
from ffrfs.errors import FormatError, PathNotFoundError

if TYPE_CHECKING:
    from ffrfs.mount.client.hint_paths import HintPaths

HELP = "announce to a mount which files will be read, in order"
DESCRIPTION = """\
Announce to the mount at MOUNTPOINT that programs will read the files PATH…, in this order. The
mount reads them ahead.
"""
EPILOG = """\
A PATH begins at the root of the mount, or includes the mount point. A decimal number is the
number of a record; for a file with such a name, write ./123. The command ends when the mount has
all hints, often long before it reads the files: it accepts hints only as far ahead of the readers
as it can use them. Wrong hints do no harm; the status is 1 if a path is not in the mount.
With --all, a mount of packs at URLs fills its cache on disk. The command ends at once;
`ffrfs stats` shows how many blocks (1 MiB) are left. Readers come first. Blocks that failed stay
left; the same command tries them again.

Examples:
    ffrfs prefetch /mnt/imagenet train/cat/1.jpg train/cat/2.jpg
    ffrfs prefetch /mnt/imagenet --from order.txt
    find /mnt/data -type f -print0 | ffrfs prefetch -0 --from - /mnt/data
    ffrfs prefetch --all /mnt/imagenet
"""

_STDIN = 0
_CHUNK_SIZE = 1 << 16
_WORD_SIZE_MAX = 1 << 16
_NAME_SIZE_SHOWN = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("mountpoint", metavar="MOUNTPOINT", help="a mount of ffrfs")
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        default=[],  # else argparse says that it is required
        help="a path, or the number of a record",
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="FILE",
        help="read more paths from FILE, one per line; - is standard input, read as lines arrive",
    )
    parser.add_argument(
        *("-0", "--null"),
        action="store_true",
        help="paths in FILE end with a zero byte, as find -print0 writes them",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="fetch all of the packs into the cache on disk, in the background",
    )


def run(args: argparse.Namespace) -> int:
    from ffrfs.mount.client.control_client import ask
    from ffrfs.mount.client.hint_paths import HintPaths
    from ffrfs.mount.client.hint_stream import HintStream
    from ffrfs.mount.kernel.mount_table import mount_at
    from ffrfs.mount.kernel.mountpoint import canonical

    place = canonical(args.mountpoint)
    if args.all:
        if args.paths or args.source is not None:
            raise UsageError("--all takes no paths: it is about all files")
        ask(place, "fill")
        return 0
    if not args.paths and args.source is None:
        raise UsageError("no paths: give a PATH, or a list of paths with --from, or --all")
    stream = HintStream(place)
    try:
        paths = HintPaths(place)
        for words in _words(args):
            stream.send([_hint(word, paths) for word in words])
        stream.finish()
        if stream.notice is not None:
            output.error(stream.notice)
        if mount_at(place) is None:  # after a lazy umount the daemon lives while files are open
            output.error(f"{place}: was unmounted, so nothing reads these hints")
        count, path = stream.missing
        if count:
            more = f" (and {count - 1:,} more)" if count > 1 else ""
            raise PathNotFoundError(
                f"{os.fsdecode(path)}: not in the mount at {place}{more}; the other hints hold"
            )
    finally:
        stream.close()
    return 0


def _words(args: argparse.Namespace) -> Iterator[list[bytes]]:
    yield [os.fsencode(path) for path in args.paths]
    if args.source is None:
        return
    end = b"\0" if args.null else b"\n"
    is_stdin = args.source == "-"
    # Unbuffered, so that each line of a pipe is read as it comes.
    with open(_STDIN if is_stdin else args.source, "rb", buffering=0, closefd=not is_stdin) as file:
        pending = b""
        while (chunk := file.read(_CHUNK_SIZE)) != b"":
            if chunk is None:  # another program may have made standard input non-blocking
                select.select([file], [], [])
                continue
            *words, pending = (pending + chunk).split(end)
            yield [word for word in words if word]
            if len(pending) > _WORD_SIZE_MAX:
                raise FormatError(f"{args.source}: not a list of paths: one is longer than 64 KiB")
        yield [pending] if pending else []


def _hint(word: bytes, paths: HintPaths) -> bytes:
    if re.fullmatch(rb"[0-9]{1,20}", word):
        return b"%d" % int(word)
    if re.fullmatch(rb"/[0-9]+", word):  # the path of a file whose name is a number
        return word
    hint = paths.hint(word)
    if hint is None:
        name = os.fsdecode(word[:_NAME_SIZE_SHOWN]) or "an empty path"
        raise PathNotFoundError(f"{name}: not in the mount at {paths.mountpoint}")
    return hint
