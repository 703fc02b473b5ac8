"""`folder / "a" / "b.jpg"` answers for a pack as pathlib does for the directory."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import pytest

import ffrfs
from ffrfs.errors import NotAFolderError, PathNotFoundError

NAMES = ("a/b/one.txt", "a/[x]/two.tar.gz", "a/x/three.txt", "four")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(f"é {name}\r\n")
    return tmp_path / "tree"


@pytest.fixture
def root(tree: Path) -> Iterator[Any]:
    ffrfs.pack_folder(tree, tree.with_suffix(".ffr"))
    with ffrfs.PackedFolder(tree.with_suffix(".ffr")) as folder:
        yield folder / ""


def seen(root: Any, paths: Any) -> list[str]:
    return sorted(str(path)[len(str(root).rstrip("/")) + 1 :] for path in paths)


def test_traversal_equals_pathlib(root: Any, tree: Path) -> None:
    for look in (
        lambda at: at.iterdir(),
        lambda at: (at / "a").iterdir(),
        lambda at: at.glob("*/*"),
        lambda at: (at / "a" / "[x]").glob("*"),
        lambda at: at.joinpath("a", "b").parent.rglob("*.txt"),
    ):
        assert seen(root, look(root)) == seen(tree, look(tree)) != []
    assert root.parent == root
    with pytest.raises(PathNotFoundError):
        [*(root / "missing").iterdir()]
    with pytest.raises(NotAFolderError):
        [*(root / "four").iterdir()]


@pytest.mark.parametrize("name", ["", "a", "a/b/", "./a/b/one.txt", "a/[x]/two.tar.gz", "no"])
def test_path_methods_equal_pathlib(root: Any, tree: Path, name: str) -> None:
    path, theirs = root / name, tree / name
    for ask in ("exists", "is_file", "is_dir"):
        assert getattr(path, ask)() == getattr(theirs, ask)()
    for part in ("name", "stem", "suffix", "suffixes"):
        assert not name or getattr(path, part) == getattr(theirs, part)
    if theirs.is_file():
        assert path.read_bytes() == theirs.read_bytes()
        assert path.read_text("utf-8") == theirs.read_text("utf-8")
        assert path.stat().st_size == theirs.stat().st_size
        with path.open("rb") as ours, path.open(encoding="utf-8", newline="") as text:
            assert ours.read().decode() == text.read()


def test_paths_compare_hash_and_pickle_by_value(root: Any) -> None:
    path = root / "a" / "b"
    assert path == root.folder / "/a" / "b" == root / Path("a/b")
    assert len({path, root.joinpath("a/b"), root}) == 2
    assert path.path in repr(path)
    copy = pickle.loads(pickle.dumps(path))
    assert (copy / "one.txt").read_bytes() == (path / "one.txt").read_bytes()
    assert isinstance(path, Traversable)
    assert not isinstance(path, os.PathLike)
