"""`ffrfs rm`: remove files from a pack or pack set."""

from __future__ import annotations

import argparse
import stat

from ffrfs.cli import add, opened_tree, output
from ffrfs.cli.cleaning_up import cleaning_up

HELP = "remove files from a pack"
DESCRIPTION = """\
Remove the files and links PATH… from PACK, and with -r directories with all files below them. If a
PATH is not in PACK, nothing is removed.
"""
EPILOG = """\
A new pack is written beside PACK, with every byte that stays verified, and then takes its place
in one step: for that time the disk needs room for both. Of a pack set, only the packs that have one
of the paths are written again. All other files keep their records, times, permissions and links.
A mount goes on with the old pack; mount again to see the new one.

Examples:
    ffrfs rm imagenet.ffr train/cat/1.jpg 'train/dog/*.tmp'
    ffrfs rm -r imagenet21k/ val
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add.add_common(parser)
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help="a file or link in PACK, or a pattern ('train/*/1*.jpg', '**/*.csv')",
    )
    parser.add_argument(
        *("-r", "--recursive"),
        action="store_true",
        help="remove directories, too, with all files below them",
    )


def run(args: argparse.Namespace) -> int:
    from ffrfs.errors import IsAFolderError
    from ffrfs.folder.tree import PackTree
    from ffrfs.packing.change import refuse_url, remove_paths
    from ffrfs.packing.places import mend_set
    from ffrfs.printable import quoted

    refuse_url(args.pack)
    if not args.dry_run:
        mend_set(args.pack)  # without all of its shards, it cannot be opened
    with PackTree(args.pack) as tree:
        paths = opened_tree.named_paths(tree, args.paths)
        for path in paths:
            if stat.S_ISDIR(tree.attributes(path).mode) and not args.recursive:
                raise IsAFolderError(
                    f"{args.pack}: {quoted(path)} is a directory; remove it with -r"
                )
    with cleaning_up(), output.progress_bar(args.pack) as bar:
        done = remove_paths(args.pack, paths, dry_run=args.dry_run, progress=bar.progress)
    add.tell(args, f"{output.count(done.path_count, 'path')} removed", done.rewritten_count)
    return 0
