"""A folder as a dict (name → bytes, or the dict of a folder), and packs and folders of it."""

from __future__ import annotations

import collections
import os
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from ffrfs.folder.tree import PackTree
from tests.ffrecord_file import INDEX_MAGIC, Header, Tree, record_extents

# Names that Linux and UTF-8 allow; often short ones, so that a name occurs in several folders.
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
    """Yield (path, bytes or None for a folder), depth first over the sorted names."""
    for name in sorted(tree):
        child = tree[name]
        if isinstance(child, dict):
            yield prefix + name, None
            yield from walk(child, f"{prefix}{name}/")
        else:
            yield prefix + name, child


def packed(tree: Tree) -> bytes:
    """Return the file that the reference's pack_folder would write, by the format page."""
    records = packed_records(tree)
    return Header(records).encode() + b"".join(records)


def packed_records(tree: Tree) -> list[bytes]:
    """Return the records of the file that packed() returns: the last one is the pickled index."""
    records: list[bytes] = []

    def index_of(folder: Tree) -> collections.OrderedDict[str, object]:
        index: collections.OrderedDict[str, object] = collections.OrderedDict()
        for name in sorted(folder):
            child = folder[name]
            # As os.listdir() returns names: no two are the same object.
            own_name = os.fsdecode(os.fsencode(name))
            if isinstance(child, dict):
                index[own_name] = index_of(child)
            else:
                index[own_name] = len(records)
                records.append(child)
        return index

    records.append(INDEX_MAGIC + pickle.dumps(index_of(tree), protocol=4))
    return records


def read_records(pack: Path) -> list[bytes]:
    """Return the records of a file after a comparison of its checksums."""
    data = pack.read_bytes()
    records = [data[offset : offset + size] for offset, size in record_extents(pack)]
    first = record_extents(pack)[0][0]
    header = Header(records)
    # There may be room between the header and the first record.
    header.offsets = [offset for offset, _ in record_extents(pack)]
    assert data[:first].rstrip(b"\0") == header.encode().rstrip(b"\0")
    return records


def assert_packed(pack: Path, tree: Tree) -> None:
    """Assert that the pack has the reference's records; more may follow its pickle."""
    *files, index = read_records(pack)
    *expected_files, expected_index = packed_records(tree)
    assert files == expected_files
    assert index.startswith(expected_index)


def read_as_reference(pack: Path) -> Tree:
    """Return the tree of a pack as the reference reads it: unpickle the last record."""
    *files, index = read_records(pack)
    assert index.startswith(INDEX_MAGIC)

    def tree_of(folder: Mapping[str, object]) -> Tree:
        return {
            name: tree_of(child) if isinstance(child, Mapping) else files[child]  # type: ignore[index]
            for name, child in folder.items()
        }

    return tree_of(pickle.loads(index[len(INDEX_MAGIC) :]))


class Shown(NamedTuple):
    """An entry as our readers show it."""

    mode: int
    mtime_ns: int
    content: bytes | None  # a link's target; None: a folder


def shown(pack: Path | list[Path], **options: Any) -> dict[str, Shown]:
    """Return the entries of a pack, a folder of packs or several packs, by path."""
    with PackTree(pack, **options) as tree:
        entries = {}
        for entry in tree.entries(tree.folder_ino(""), recursive=True):
            ino = entry.attributes.ino
            content: bytes | None = None
            if entry.is_link:
                content = tree.volume.target(ino)
            elif not entry.is_folder:
                content = b"".join(map(bytes, tree.pieces(ino)))
            entries[entry.path] = Shown(entry.attributes.mode, entry.attributes.mtime_ns, content)
        return entries


def shown_tree(pack: Path | list[Path]) -> Tree:
    """Return the entries of shown() as a tree; a link appears as its target."""
    tree: Tree = {}
    for path, entry in shown(pack).items():
        *above, name = path.split("/")
        folder = tree
        for part in above:
            inner = folder[part]
            assert isinstance(inner, dict)
            folder = inner
        folder[name] = {} if entry.content is None else entry.content
    return tree
