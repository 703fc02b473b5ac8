"""PackPath gives the same answers for a pack as pathlib for its directory."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ffrfs
from tests.adapters.needed import needed

upath = needed("upath")
PackPath = needed("ffrfs.upath").PackPath


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("a/b/one.txt", "a/two.tar.gz", "three.txt"):
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(name)
    ffrfs.pack_folder(tmp_path / "tree", tmp_path / "x.ffr")
    return tmp_path / "tree"


@pytest.fixture(params=["ffr://::{}", "ffr://::file://{}", "fo"])
def root(request: pytest.FixtureRequest, tree: Path) -> Any:
    pack = str(tree.with_name("x.ffr"))
    if request.param == "fo":
        return upath.UPath("ffr://", fo=pack)
    return upath.UPath(request.param.format(pack))


def below(root: Any, paths: Any) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in paths)


def test_walking(root: Any, tree: Path) -> None:
    assert type(root) is PackPath
    for look in (
        lambda at: at.iterdir(),
        lambda at: (at / "a").iterdir(),
        lambda at: at.glob("*/*"),
        lambda at: at.glob("**/*.txt"),
        lambda at: at.rglob("*"),
        lambda at: (at / "a/b/one.txt").parents[1].iterdir(),
    ):
        assert below(root, look(root)) == below(tree, look(tree))
    walked = [(below(root, [at]), folders, files) for at, folders, files in root.walk()]
    assert walked == [
        (["."], ["a"], ["three.txt"]),
        (["a"], ["b"], ["two.tar.gz"]),
        (["a/b"], [], ["one.txt"]),
    ]


def test_a_path(root: Any, tree: Path) -> None:
    path, theirs = root.joinpath("a", "two.tar.gz"), tree / "a" / "two.tar.gz"
    for ask in ("name", "stem", "suffix", "suffixes"):
        assert getattr(path, ask) == getattr(theirs, ask)
    assert path.read_bytes() == theirs.read_bytes()
    assert path.with_name("b").joinpath("one.txt").read_text() == "a/b/one.txt"
    assert path.stat().st_size == theirs.stat().st_size
    assert path.stat().st_mtime == pytest.approx(theirs.stat().st_mtime)
    for one in (path, root, root / "a", root / "missing"):
        local = tree / str(one.relative_to(root))
        assert (one.exists(), one.is_file(), one.is_dir()) == (
            local.exists(),
            local.is_file(),
            local.is_dir(),
        )
    with path.open("r") as file:
        assert file.read() == "a/two.tar.gz"
    copy = pickle.loads(pickle.dumps(path))
    assert (copy, type(copy), copy.read_bytes()) == (path, PackPath, theirs.read_bytes())
    assert upath.UPath(path.as_uri(), **path.storage_options) == path
    path.copy(upath.UPath(tree / "copy"))
    assert (tree / "copy").read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.mkdir(),
        lambda path: path.touch(),
        lambda path: path.unlink(),
        lambda path: path.rmdir(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text(""),
        lambda path: path.rename("b"),
        lambda path: path.replace("b"),
        lambda path: path.symlink_to("b"),
        lambda path: path.chmod(0o700),
    ],
)
def test_writing_is_refused(root: Any, write: Callable[[Any], Any]) -> None:
    with pytest.raises(upath.UnsupportedOperation):
        write(root / "a")
