"""`ffrfs extract`: files of a pack as ordinary files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ffrfs.cli import opened_tree, output

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "extract",
        help="write files of a packed file to a folder",
        description="Write the files, folders and links PATH… of PACK (by default all) below "
        "DEST, with the modes and times that were packed. PACK may also be a folder of packs. "
        "Nothing is overwritten, nothing is written outside DEST, and no symbolic link "
        "below DEST is followed. Damaged files are named and left out.",
    )
    opened_tree.add_arguments(parser)
    parser.add_argument("destination", metavar="DEST", help="a folder; made if missing")
    parser.add_argument("paths", metavar="PATH", nargs="*")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from ffrfs.folder.extract import extract
    from ffrfs.folder.progress import ProgressBar

    shown = output.show_progress()
    with opened_tree.open_tree(args) as tree, ProgressBar(args.destination, shown) as bar:
        bad = extract(tree, args.destination, args.paths, bar if shown else None)
    for reason in bad:
        output.error(reason)
    return 1 if bad else 0
