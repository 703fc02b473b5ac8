"""`ffrfs extract`: files of a pack as ordinary files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ffrfs.console import opened_tree, output
from ffrfs.console.remote_options import add_remote_options

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EPILOG = """\
Examples:
    ffrfs extract imagenet.ffr copy/
    ffrfs extract imagenet.ffr copy/ labels.csv train/cat
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "extract",
        help="write files of a pack to a directory",
        description="Write the files, directories and links PATH… of PACK (default: all) below "
        "DEST, with the modes and times that were packed. The command overwrites nothing, writes "
        "nothing outside DEST, and follows no symbolic link below DEST. It names damaged files "
        "and leaves them out.",
        epilog=_EPILOG,
    )
    opened_tree.add_arguments(parser)
    parser.add_argument("destination", metavar="DEST", help="a directory; created if missing")
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        default=[],  # else argparse says that it is required
        help="a file, directory or link in PACK (default: all)",
    )
    add_remote_options(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from ffrfs.dataset.extract import extract
    from ffrfs.folder.progress import ProgressBar

    shown = output.show_progress()
    with ProgressBar(args.destination, shown) as bar:
        bad = extract(
            args.pack,
            args.destination,
            args.paths,
            on_conflict=args.on_conflict,
            allow_missing=args.allow_missing,
            on_error="skip",
            progress=bar if shown else None,
        )
    for reason in bad:
        output.error(reason)
    return 1 if bad else 0
