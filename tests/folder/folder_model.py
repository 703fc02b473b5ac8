"""A folder as a dict: name → its bytes, or the dict of a folder. And what becomes of it."""

from __future__ import annotations

import collections
import os
import pickle
from collections.abc import Iterator
from pathlib import Path

from ffrecord_file import INDEX_MAGIC, Header, Tree
from hypothesis import strategies as st

# Names as Linux takes them and UTF-8 has them; short ones often, so that they meet again.
names = st.one_of(
    st.sampled_from(["a", "b", "é", "ÿ", "Ā", "collections", "OrderedDict", ".a", "-", "名前"]),
    st.text(
        st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=63
    ),
).filter(lambda name: name not in (".", ".."))

trees = st.recursive(
    st.dictionaries(names, st.binary(max_size=300), max_size=5),
    lambda folders: st.dictionaries(names, folders | st.binary(max_size=300), max_size=5),
    max_leaves=30,
)


def make_folder(path: Path, tree: Tree) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name, child in tree.items():
        if isinstance(child, dict):
            make_folder(path / name, child)
        else:
            (path / name).write_bytes(child)
    return path


def read_folder(path: Path) -> Tree:
    return {
        entry.name: read_folder(entry) if entry.is_dir() else entry.read_bytes()
        for entry in path.iterdir()
    }


def walk(tree: Tree, prefix: str = "") -> Iterator[tuple[str, bytes | None]]:
    """(path, bytes; None for a folder), depth first over the sorted names."""
    for name in sorted(tree):
        child = tree[name]
        if isinstance(child, dict):
            yield prefix + name, None
            yield from walk(child, f"{prefix}{name}/")
        else:
            yield prefix + name, child


def packed(tree: Tree) -> bytes:
    """The file that the reference's pack_folder would write, as the format page says."""
    records: list[bytes] = []

    def index_of(folder: Tree) -> collections.OrderedDict[str, object]:
        index: collections.OrderedDict[str, object] = collections.OrderedDict()
        for name in sorted(folder):
            child = folder[name]
            # As from os.listdir(): no two names are the same object.
            own_name = os.fsdecode(os.fsencode(name))
            if isinstance(child, dict):
                index[own_name] = index_of(child)
            else:
                index[own_name] = len(records)
                records.append(child)
        return index

    records.append(INDEX_MAGIC + pickle.dumps(index_of(tree), protocol=4))
    return Header(records).encode() + b"".join(records)
