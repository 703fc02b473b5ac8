"""`ffrfs prefetch`: hints for a mount, from arguments, files and pipes."""

from __future__ import annotations

import argparse
import functools
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ffrfs.errors import FormatError, PathNotFoundError

if TYPE_CHECKING:
    from ffrfs.mount.hint_paths import HintPaths

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EPILOG = """\
Paths are those in the mount, from its root or with the mount point before them. A decimal
number is a record's; of a file with such a name, say ./123. The command ends when all was
handed over, which may be long before it is read: the mount takes hints as far ahead of the
readers as it has use for. Wrong hints do no harm.
"""

_STDIN = 0
_CHUNK_SIZE = 1 << 16
_WORD_SIZE_MAX = 1 << 16
_NAME_SIZE_SHOWN = 4096


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "prefetch",
        help="tell a mount what will be read, in order",
        description="Tell the mount at MOUNTPOINT that the files PATH… will be read, in that "
        "order, by whatever program: it reads them ahead.",
        epilog=_EPILOG,
    )
    parser.add_argument("mountpoint", metavar="MOUNTPOINT")
    parser.add_argument("paths", metavar="PATH", nargs="*", help="a path, or a record's number")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="FILE",
        help="take more of them from FILE, one a line; -: from standard input, as they come",
    )
    parser.add_argument(
        *("-0", "--null"),
        action="store_true",
        help="FILE has a zero byte after each, as find -print0 writes it",
    )
    parser.set_defaults(func=functools.partial(run, parser))


def run(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from ffrfs.mount.hint_paths import HintPaths
    from ffrfs.mount.hint_stream import HintStream
    from ffrfs.mount.mountpoint import canonical

    if not args.paths and args.source is None:
        parser.error("nothing is hinted: name a PATH, or a file of them with --from")
    place = canonical(args.mountpoint)
    stream = HintStream(place)
    try:
        paths = HintPaths(place)
        for words in _words(args):
            stream.send([_hint(word, paths) for word in words if word])
        stream.finish()
    finally:
        stream.close()
    return 0


def _words(args: argparse.Namespace) -> Iterator[list[bytes]]:
    yield [os.fsencode(path) for path in args.paths]
    if args.source is None:
        return
    end = b"\0" if args.null else b"\n"
    is_stdin = args.source == "-"
    # Unbuffered: of a pipe, what is there is read, be it one line.
    with open(
        _STDIN if is_stdin else args.source, "rb", buffering=0, closefd=not is_stdin
    ) as file:
        pending = b""
        while chunk := file.read(_CHUNK_SIZE):
            *words, pending = (pending + chunk).split(end)
            yield words
            if len(pending) > _WORD_SIZE_MAX:
                raise FormatError(f"{args.source}: no list of paths: one is longer than 64 KiB")
        yield [pending]


def _hint(word: bytes, paths: HintPaths) -> bytes:
    if re.fullmatch(rb"[0-9]{1,20}", word):
        return b"%d" % int(word)
    if re.fullmatch(rb"/[0-9]+", word):  # a number that is a name after all
        return word
    hint = paths.hint(word)
    if hint is None:
        name = os.fsdecode(word[:_NAME_SIZE_SHOWN])
        raise PathNotFoundError(f"{name}: not in the mount at {paths.mountpoint}")
    return hint
