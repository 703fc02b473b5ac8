"""`ffrfs extract`: files of a pack as ordinary files."""

from __future__ import annotations

import argparse

from ffrfs.cli import opened_tree, output

HELP = "write files of a pack to a directory"
DESCRIPTION = """\
Write the files, directories and links PATH… of PACK (default: all) below DEST, with the modes and
times that were packed. The command overwrites nothing, writes nothing outside DEST, and follows no
symbolic link below DEST. It names damaged files and leaves them out.
"""
EPILOG = """\
Examples:
    ffrfs extract imagenet.ffr copy/
    ffrfs extract imagenet.ffr copy/ labels.csv train/cat
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    opened_tree.add_arguments(parser)
    parser.add_argument("destination", metavar="DEST", help="a directory; created if missing")
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        default=[],  # else argparse says that it is required
        help="a file, directory or link in PACK (default: all)",
    )


def run(args: argparse.Namespace) -> int:
    from ffrfs.folder.extract import extract

    with output.progress_bar(args.destination) as bar:
        bad = extract(
            args.pack,
            args.destination,
            args.paths,
            on_conflict=args.on_conflict,
            allow_missing=args.allow_missing,
            on_error="skip",
            progress=bar.progress,
        )
    for reason in bad:
        output.error(reason)
    return 1 if bad else 0
