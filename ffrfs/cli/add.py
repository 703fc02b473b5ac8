"""`ffrfs add`: add files to a pack or pack set."""

from __future__ import annotations

import argparse

from ffrfs.cli import output
from ffrfs.cli.cleaning_up import cleaning_up

HELP = "add files to a pack, or replace some"
DESCRIPTION = """\
Add files, and directories with all files below them, to PACK. The command line names the path of
each file in PACK. A path that PACK has already is an error, unless --force is given.
"""
EPILOG = """\
A new pack is written beside PACK, with every byte of the old one verified, and then takes its
place in one step: for that time the disk needs room for both. Records, times, permissions and
links of the old one stay as they are. A mount goes on with the old pack; mount again to see the
new one.

To a pack set the files are added as one more pack. With --force, the packs that have their paths
are written again.

Examples:
    ffrfs add imagenet.ffr labels.csv val
    ffrfs add --force -C ~/imagenet imagenet.ffr train/cat/1.jpg
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common(parser)
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="a file or directory below DIR, which keeps its path",
    )
    parser.add_argument(
        *("-C", "--directory"),
        metavar="DIR",
        default=".",
        help="the directory that contains FILE; the path in PACK begins below it (default: the "
        "current directory)",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace files and links that have the same path"
    )


def add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pack", metavar="PACK", help="a pack, or a pack set, on this machine")
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be done, and write nothing"
    )


def run(args: argparse.Namespace) -> int:
    from ffrfs.packing.change import add_files

    with cleaning_up(), output.progress_bar(args.pack) as bar:
        done = add_files(
            args.pack,
            args.files,
            folder=args.directory,
            force=args.force,
            dry_run=args.dry_run,
            progress=bar.progress,
        )
    replaced = f", {done.replaced_count:,} replaced" if done.replaced_count else ""
    tell(args, f"{output.count(done.path_count, 'file')} added{replaced}", done.rewritten_count)
    return 0


def tell(args: argparse.Namespace, what: str, rewritten_count: int) -> None:
    fate = ""
    if args.dry_run:
        fate = ", not written (dry run)"
    elif rewritten_count:
        fate = f", {output.count(rewritten_count, 'pack')} written again"
    output.line(f"{args.pack}: {what}{fate}")
