"""walk: the directories of a pack one after the other, as os.walk() gives them.

Concurrency: no state; any thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ffrfs.folder.tree import PackTree

# The path, and the names of the directories and of the files in it.
Walked: TypeAlias = tuple[str, list[str], list[str]]


def walk(tree: PackTree, top: str, ino: int) -> Iterator[Walked]:
    """Walk through `top`, whose inode is `ino`, and all below it, as PackedFolder.walk() does."""
    left = [(top, ino)]
    while left:
        path, ino = left.pop()
        folders: list[str] = []
        files: list[str] = []
        inos: dict[str, int] = {}  # of the directories, without links to directories
        for entry, is_link in tree.followed(path, ino):
            (folders if entry.is_folder else files).append(entry.path)
            if entry.is_folder and not is_link:
                inos[entry.path] = entry.attributes.ino
        yield path, folders, files
        left += [(os.path.join(path, name), inos[name]) for name in folders[::-1] if name in inos]
