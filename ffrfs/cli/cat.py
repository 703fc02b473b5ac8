"""`ffrfs cat`: files of a pack to stdout."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ffrfs.cli import opened_tree, output

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EPILOG = """\
Examples:
    ffrfs cat imagenet.ffr labels.csv
    ffrfs cat imagenet.ffr train/cat/1.jpg > 1.jpg
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "cat",
        help="write files of a pack to standard output",
        description="Write the files PATH… of PACK to standard output, one after the other. "
        "Symbolic links are followed inside PACK. The command stops at the first damaged file, "
        "before its first wrong byte.",
        epilog=_EPILOG,
    )
    opened_tree.add_arguments(parser)
    parser.add_argument("paths", metavar="PATH", nargs="+", help="a file in PACK")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    with opened_tree.open_tree(args) as tree:
        for ino in [tree.file_ino(path) for path in args.paths]:
            for piece in tree.pieces(ino):
                output.write(piece)
    return 0
