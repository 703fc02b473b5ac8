"""`ffrfs extract`: files of a pack as ordinary files."""

from __future__ import annotations

import argparse

from ffrfs.cli import opened_tree, output

HELP = "write files of a pack to a directory"
DESCRIPTION = """\
Write the files, directories and links PATH… of PACK (default: all) below DEST, with the modes and
times that were packed. The command writes nothing outside DEST, and follows no symbolic link below
DEST. It names damaged files and leaves them out. A file that exists is an error.
"""
EPILOG = """\
Examples:
    ffrfs extract imagenet.ffr copy/
    ffrfs extract imagenet.ffr copy/ labels.csv train/cat
    ffrfs extract --skip-existing imagenet.ffr copy/ '**/*.csv'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    opened_tree.add_arguments(parser)
    parser.add_argument("destination", metavar="DEST", help="a directory; created if missing")
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        default=[],  # else argparse says that it is required
        help="a file, directory or link in PACK, or a pattern ('train/*/1*.jpg', '**/*.csv'); "
        "default: all",
    )
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument(
        "--skip-existing",
        dest="existing",
        action="store_const",
        const="skip",
        default="error",
        help="leave files that exist as they are: the same command goes on where another was "
        "ended; your directories below DEST get the packed modes and times, too",
    )
    existing.add_argument(
        "--force",
        dest="existing",
        action="store_const",
        const="replace",
        help="replace files that exist",
    )


def run(args: argparse.Namespace) -> int:
    from ffrfs.folder.extract import extract_tree

    with opened_tree.open_tree(args) as tree, output.progress_bar(args.destination) as bar:
        paths = opened_tree.named_paths(tree, args.paths)
        bad = extract_tree(tree, args.destination, paths, bar.progress, args.existing)
    for reason in bad:
        output.error(reason)
    return 1 if bad else 0
