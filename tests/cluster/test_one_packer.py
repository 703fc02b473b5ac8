"""All ways to pack make the same bytes: without an executor, by processes, task by task."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ffrfs import pack_folder
from ffrfs.cluster import pack_by_plan, plan
from tests.cli.command_run import Run
from tests.cluster.trees import add_links, make_tree, shards_of
from tests.ffrecord_file import Tree
from tests.folder.folder_model import make_folder, trees


def folder(place: Path) -> list[Path]:
    """A tree with links, hard links, empty directories, equal files, and one very large file."""
    root = add_links(make_tree(place / "tree", folders=12, files=20))
    (root / "d0" / "large").write_bytes(bytes(3 << 20))
    os.link(root / "d0" / "large", root / "d2" / "the same")
    (root / "d1" / "like top").write_bytes(b"top")
    (root / "zz" / "behind" / "all").mkdir(parents=True)
    return [root]


def packs(place: Path) -> list[Path]:
    (root,) = folder(place)
    pack_folder(root, place / "one.ffr", symlinks="keep", dedup=True, exclude=["d1"])
    pack_folder(root, place / "set", symlinks="keep", include=["d1"], shards=2)
    return [place / "one.ffr", place / "set"]


def tarred(place: Path, *, compressed: bool = False) -> list[Path]:
    """An archive with links to files and to directories, which are followed."""
    (root,) = folder(place)
    for name in ("away", "d0/bytes"):  # these links lead out of the tree
        (root / name).unlink()
    name = "x.tar.gz" if compressed else "x.tar"
    subprocess.run(["tar", "caf", name, "-C", "tree", "."], cwd=place, check=True)
    return [place / name]


def compressed(place: Path) -> list[Path]:
    return tarred(place, compressed=True)


def listed(place: Path) -> list[Path]:
    (place / "list").write_text("top\nd2\nd0/e0\nd1/e1\nd0/large\nd2/to folder\nzz\n")
    return folder(place)


Make = Callable[[Path], list[Path]]
CASES: list[tuple[Make, list[str]]] = [
    (folder, ["--shards", "8", "--symlinks", "keep", "--reproducible"]),
    (folder, ["--shards", "1", "--symlinks", "skip", "--exclude", "e1"]),
    (folder, ["--shard-size", "300K", "--symlinks", "keep", "--dedup"]),
    (folder, ["--shards", "4", "--symlinks", "keep", "--order", "size"]),
    (listed, ["--shards", "4", "--symlinks", "keep", "--files-from", "list"]),
    (tarred, ["--shards", "4", "--dedup", "--exclude", "e1"]),
    (compressed, ["--shards", "3", "--reproducible", "--symlinks", "keep"]),
    (packs, ["--shards", "5", "--dedup"]),
    (packs, ["--shard-size", "300K", "--reproducible", "--order", "size"]),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Make], tuple[Path, list[Path]]]:
    """Makes a source once; returns the directory that it is in, and its paths."""

    @functools.cache
    def make(source: Make) -> tuple[Path, list[Path]]:
        place = tmp_path_factory.mktemp("source")
        return place, source(place)

    return make


@pytest.fixture
def sources(
    made: Callable[[Make], tuple[Path, list[Path]]], source: Make, monkeypatch: pytest.MonkeyPatch
) -> list[Path]:
    """The paths of the source; their directory is the current one."""
    place, paths = made(source)
    monkeypatch.chdir(place)
    return paths


@pytest.mark.promise("S66")
@pytest.mark.parametrize(("source", "options"), CASES)
def test_shards_are_equal_with_and_without_an_executor(
    ffrfs: Run, tmp_path: Path, sources: list[Path], options: list[str]
) -> None:
    """Not here: other engines than processes (test_same_bytes.py)."""

    def packed(*more: str) -> dict[str, bytes]:
        target = tmp_path / more[-1]
        assert ffrfs("pack", "-q", *options, *more, *sources, target).said == []
        return shards_of(target)

    expected = packed("--jobs", "1")
    assert len(expected) > 1 or "1" in options
    for more in (["--jobs", "3"], ["--executor", "processes:2"]):
        assert packed(*more) == expected
    planned = tmp_path / "plan"
    words = [*options, *sources, tmp_path / "t"]
    assert ffrfs("cluster", "plan", "-q", planned, *words).status == 0
    for task in ("1/2", "0/2"):
        assert ffrfs("cluster", "run", "-q", planned, "--task", task).status == 0
    assert ffrfs("cluster", "commit", "-q", planned).status == 0
    assert shards_of(tmp_path / "t") == expected


@pytest.fixture
def thread() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tree=trees, shards=st.integers(1, 5))
def test_any_tree(
    tmp_path_factory: pytest.TempPathFactory, tree: Tree, shards: int, thread: Executor
) -> None:
    place = tmp_path_factory.mktemp("any")
    make_folder(place / "folder", tree)
    pack_folder(place / "folder", place / "alone", shards=shards)
    with plan(
        place / "folder", place / "set", place / "plan", shards=shards, executor=thread
    ) as planned:
        pack_by_plan(planned, thread)
    assert shards_of(place / "set") == shards_of(place / "alone")
