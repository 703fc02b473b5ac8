"""The structure of a pack as in the original library: nested OrderedDicts of record numbers.

It is made of the tree, whichever index that comes from: no pickle is loaded.
Not here: the tree (tree.py). Concurrency: that of the tree.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias, cast

if TYPE_CHECKING:
    from ffrfs.folder.tree import PackTree

Structure: TypeAlias = "OrderedDict[str, int | Structure]"


def structure_of(tree: PackTree) -> Structure:
    """Return {name: record number, or the same for a directory}, without symbolic links."""
    root: Structure = OrderedDict()
    for entry in tree.entries(tree.folder_ino(""), recursive=True):
        *parents, name = entry.path.split("/")
        folder = root
        for parent in parents:
            folder = cast(Structure, folder[parent])
        if entry.is_folder:
            folder[name] = OrderedDict()
        elif not entry.is_link:
            record = tree.volume.record(entry.attributes.ino)
            assert record is not None
            folder[name] = record[0]
    return root
