"""The arguments of commands that show a tree: PACK, and how several packs become one tree."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ffrfs.folder.tree import PackTree


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "pack",
        metavar="PACK",
        help="a pack, or a directory of packs (a pack set), read as one tree; also a TFRecord "
        "file, a directory of them, a TFDS directory DIR, or its split DIR/SPLIT",
    )
    add_union_options(parser, default="error")


def add_union_options(parser: argparse._ActionsContainer, default: str | None = None) -> None:
    """Add the options for several packs in one tree; `default` holds without an option."""
    parser.add_argument(
        "--on-conflict",
        choices=("error", "first", "last"),
        default=default,
        help="show the first or the last pack's file if several contain its path; "
        "directories are merged (default: error)",
    )
    parser.add_argument(
        "--allow-missing",
        action="store_true",
        help="show the other packs if some cannot be opened, or if shards of a pack set or of a "
        "TFDS split are missing",
    )


def named_paths(tree: PackTree, words: Iterable[str], *, follow_links: bool = False) -> list[str]:
    """Return the paths that `words` name: a path that exists, or a pattern (`**` too).

    `follow_links`: files behind links match, too; else links are links. Raises PathNotFoundError
    for a word that names nothing.
    """
    from ffrfs.errors import PathNotFoundError
    from ffrfs.folder.path_pattern import is_pattern, matching
    from ffrfs.printable import quoted

    found: list[str] = []
    for word in words:
        if not is_pattern(word) or tree.find(word):
            found.append(word)
            continue
        paths = [*matching(tree, word, follow_links=follow_links)]
        if not paths:
            raise PathNotFoundError(f"{tree.file}: nothing matches {quoted(word)}")
        found += paths
    return found


def open_tree(args: argparse.Namespace) -> PackTree:
    from ffrfs.folder.tree import PackTree

    return PackTree(args.pack, on_conflict=args.on_conflict, allow_missing=args.allow_missing)
