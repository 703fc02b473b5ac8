"""What ls, cat and extract have in common: PACK, and what becomes of several packs in it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ffrfs.folder.tree import PackTree


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pack", metavar="PACK")
    parser.add_argument(
        "--on-conflict",
        choices=("error", "first", "last"),
        default="error",
        help="of a path that stands in several packs show the first pack's or the last's; "
        "folders merge (default: %(default)s)",
    )
    parser.add_argument(
        "--allow-missing",
        action="store_true",
        help="show the rest if packs cannot be opened, or shards of a set are not there",
    )


def open_tree(args: argparse.Namespace) -> PackTree:
    from ffrfs.folder.tree import PackTree

    return PackTree(args.pack, on_conflict=args.on_conflict, allow_missing=args.allow_missing)
