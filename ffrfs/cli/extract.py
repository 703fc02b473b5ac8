"""`ffrfs extract`: files of a pack as ordinary files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ffrfs.cli import output

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "extract",
        help="write files of a packed file to a folder",
        description="Write the files and folders PATH… of PACK (by default all) below DEST. "
        "Nothing is overwritten, nothing is written outside DEST, and no symbolic link "
        "below DEST is followed. Damaged files are named and left out.",
    )
    parser.add_argument("pack", metavar="PACK")
    parser.add_argument("destination", metavar="DEST", help="a folder; made if missing")
    parser.add_argument("paths", metavar="PATH", nargs="*")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from ffrfs.folder.extract import extract
    from ffrfs.folder.progress import ProgressBar
    from ffrfs.folder.tree import PackTree

    shown = output.show_progress()
    with PackTree(args.pack) as tree, ProgressBar(args.destination, shown) as bar:
        bad = extract(tree, args.destination, args.paths, bar if shown else None)
    for reason in bad:
        output.error(reason)
    return 1 if bad else 0
