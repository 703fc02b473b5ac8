"""Listing by tasks finds the same as packing by one process, whatever is in the tree."""

from __future__ import annotations

import os
import random
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings

from ffrfs import pack_folder
from ffrfs.cluster import Plan, run
from ffrfs.cluster import listing as listing_module
from ffrfs.cluster.folder_plan import FolderListing
from ffrfs.cluster.listing import Listed, ListTask, list_folders
from ffrfs.errors import PackError
from ffrfs.packing.sources import folder_lister
from ffrfs.packing.sources.contents import Symlinks
from ffrfs.packing.sources.folder_lister import DEPTH_LIMIT
from ffrfs.packing.sources.options import PackOptions
from tests.cluster.trees import finish, planned
from tests.ffrecord_file import Tree
from tests.folder.folder_model import make_folder, shown, trees
from tests.packing.test_source import nest

Shows = dict[str, tuple[int, int, bytes | None]]


def compare(source: Path, **options: Any) -> None:
    """Pack `source` by a plan and by one process: the trees, or the refusals, must be the same."""
    place = source.parent
    number = len(list(place.iterdir()))
    one, other = place / f"one{number}", place / f"other{number}"
    try:
        expected = pack_folder(source, one, shards=3, **options)
    except (PackError, OSError) as error:
        with pytest.raises((PackError, OSError)) as caught:
            planned(source, other, place / f"plan{number}", **options)
        assert type(caught.value) is type(error)
        assert str(caught.value) == str(error)
        assert not (place / f"plan{number}").exists()
        return
    with planned(source, other, place / f"plan{number}", **options) as plan:
        assert plan.file_count == expected.file_count
        assert plan.byte_count == expected.byte_count
        assert sorted(plan.skipped) == sorted(expected.skipped)
        finish(plan)
    found = shown(other)
    assert list(found) == list(shown(one))
    assert found == shown(one)


PATTERNS: list[dict[str, list[str]]] = [
    {},
    {"include": ["*.bin"]},
    {"include": ["d0", "top"]},
    {"include": ["e?"], "exclude": ["00*"]},
    {"exclude": ["d1/*"]},
    {"exclude": ["d1/e1/nothing"]},
    {"include": ["/d1/e1/nothing"]},
    {"include": ["below"]},
    {"exclude": ["*"]},
    {"include": ["top"], "exclude": ["top"]},
    {"include": ["no such"]},
    {"include": ["top", "no such", "nor this"]},
]


@pytest.mark.parametrize("patterns", PATTERNS)
def test_patterns(tree: Path, patterns: dict[str, list[str]]) -> None:
    compare(tree, **patterns)


@pytest.mark.parametrize("symlinks", ["inside", "follow", "keep", "skip"])
@pytest.mark.parametrize("kind", ["file", "folder", "out", "out folder", "nowhere", "self", "up"])
def test_links(tree: Path, symlinks: str, kind: str) -> None:
    (tree.parent / "outside").mkdir()
    (tree.parent / "outside" / "there").write_bytes(b"there")
    target = {
        "file": "../top",
        "folder": "../d1/e1",
        "out": "../../outside/there",
        "out folder": "../../outside",
        "nowhere": "/no/where",
        "self": "link",
        "up": "..",
    }[kind]
    (tree / "d0" / "link").symlink_to(target)
    compare(tree, symlinks=symlinks)
    compare(tree, symlinks=symlinks, exclude=["link"])
    compare(tree, symlinks=symlinks, include=["link"])


def test_many_links_that_lead_out_of_the_source(tree: Path) -> None:
    for number in range(9):
        (tree / "d0" / f"link{number}").symlink_to("/etc")
    compare(tree)


def test_a_loop_over_two_links(tree: Path) -> None:
    other = make_folder(tree.parent / "other", {"x": b""})
    (other / "back").symlink_to(tree)
    (tree / "d0" / "away").symlink_to(other)
    with pytest.raises(PackError, match="makes a loop"):
        planned(tree, tree.parent / "set", tree.parent / "plan", symlinks="follow")
    assert not (tree.parent / "plan").exists()


def test_a_link_whose_target_is_not_utf8(tree: Path) -> None:
    os.symlink(b"\xff\xfe\n", os.fsencode(tree / "d0" / "bytes"))
    (tree / "d0" / "text").symlink_to("名前\n")
    compare(tree, symlinks="keep")


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("kind", ["socket", "FIFO", "bytes", "folder of bytes", "link of bytes"])
def test_entries_that_no_pack_can_hold(tree: Path, kind: str, skips: bool) -> None:
    place = os.fsencode(tree / "d0" / "e0")
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(tree / "d0" / "made"))
    elif kind == "FIFO":
        os.mkfifo(tree / "d0" / "made")
    elif kind == "bytes":
        (tree / "d0" / os.fsdecode(b"\xff")).write_bytes(b"")
    elif kind == "folder of bytes":
        os.makedirs(place + b"/\xff/x")
    else:
        os.symlink("x", place + b"/\xff")
    compare(tree, skip_special=skips, symlinks="keep")
    compare(tree, skip_special=skips, exclude=["d0"])


def test_skipped_files_are_named_in_order(tree: Path, executor: ThreadPoolExecutor) -> None:
    for folder in ("d2", "d0", "d1"):
        os.mkfifo(tree / folder / "fifo")
    with patch.object(listing_module, "_SHARE", 1):
        listed = FolderListing(str(tree), PackOptions(skip_special=True), executor)
    listed.close()
    assert listed.skipped == [f"{tree}/d{number}/fifo" for number in range(3)]


def test_a_directory_that_cannot_be_read(tree: Path) -> None:
    (tree / "d1").chmod(0)
    if os.access(tree / "d1", os.R_OK):
        (tree / "d1").chmod(0o755)
        pytest.skip("we may read everything")
    try:
        compare(tree)
        compare(tree, exclude=["d1"])
    finally:
        (tree / "d1").chmod(0o755)


@pytest.mark.parametrize("target", ["set", "d0/set", "d0/e0", "."])
def test_a_target_inside_the_source(tree: Path, target: str) -> None:
    with pytest.raises(PackError, match="the pack would be inside the directory that it packs"):
        planned(tree, tree / target, tree.parent / "plan")
    (tree.parent / "link").symlink_to(tree)
    with pytest.raises(PackError, match="the pack would be inside the directory that it packs"):
        planned(tree, tree.parent / "link" / target, tree.parent / "plan")
    assert not (tree.parent / "plan").exists()


def test_a_target_whose_name_begins_like_the_source(tree: Path) -> None:
    """`tree-set` is not inside `tree`."""
    with planned(tree, Path(f"{tree}-set"), tree.parent / "plan") as plan:
        run(plan, 0)


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """An empty directory in which deep ones can be made; rm(1) can remove them."""
    (tmp_path / "tree").mkdir()
    yield tmp_path / "tree"
    subprocess.run(["rm", "-rf", tmp_path / "tree"], check=True)


@pytest.mark.parametrize("depth", [DEPTH_LIMIT, DEPTH_LIMIT + 1])
def test_a_deep_directory(deep: Path, tmp_path: Path, depth: int) -> None:
    """The tree is as deep as a pack may be, or one level deeper."""
    nest(deep, depth)
    if depth <= DEPTH_LIMIT:
        compare(deep)
        return
    with pytest.raises(PackError, match=f"deeper than {DEPTH_LIMIT} directories"):
        planned(deep, tmp_path / "set", tmp_path / "plan")


def test_permissions_and_times_of_all_kinds(tree: Path) -> None:
    (tree / "d0" / "e0").chmod(0o3777)
    (tree / "top").chmod(0o6755)
    (tree / "zero").chmod(0o400)
    os.utime(tree / "top", (2**34, 2**34))  # no pack can hold these two
    os.utime(tree / "zero", (-(2**31), -(2**31)))
    compare(tree)


def test_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    compare(tmp_path / "tree")
    (tmp_path / "tree" / "x").mkdir()
    compare(tmp_path / "tree")
    (tmp_path / "tree" / "link").symlink_to("y")
    compare(tmp_path / "tree", symlinks="keep")


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees)
def test_any_tree(tmp_path_factory: pytest.TempPathFactory, tree: Tree) -> None:
    compare(make_folder(tmp_path_factory.mktemp("any") / "tree", tree))


def all_of(source: Path, *, share: int, mix: bool = False) -> tuple[list[str], int]:
    """Return the paths in their order, and the number of tasks."""
    tasks = 0

    class Counting(ThreadPoolExecutor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            nonlocal tasks
            tasks += 1
            return super().submit(fn, *args, **kwargs)

    with (
        patch.object(listing_module, "_SHARE", share),
        Counting(3) as pool,
        closing(FolderListing(str(source), PackOptions(), pool)) as listed,
    ):
        pieces = list(listed.pieces())
    return [piece.path(file) for piece in pieces for file in range(piece.file_count)], tasks


def test_tasks_share_a_large_tree(tmp_path: Path) -> None:
    chance = random.Random(6)
    for number in range(60):
        folder = tmp_path / "tree" / "/".join(chance.choices(["a", "a-", "a.b", "é"], k=4))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}").write_bytes(b"")
    expected, few = all_of(tmp_path / "tree", share=50_000)
    assert few < 5
    for share in (1, 3, 10):
        found, many = all_of(tmp_path / "tree", share=share)
        assert found == expected
        assert many > few
    pack_folder(tmp_path / "tree", tmp_path / "one", shards=1)
    files = [path for path, entry in shown(tmp_path / "one").items() if entry.content is not None]
    assert sorted(expected) == sorted(files)


def test_a_task_returns_the_directories_it_did_not_list(tree: Path) -> None:
    with patch.object(listing_module, "_SHARE", 3):
        listed = list_folders(ListTask(str(tree), PackOptions(), ("",)))
    assert isinstance(listed, Listed)
    assert [folder.path for folder in listed.folders] == [""]
    assert listed.left == ["d0", "d1", "d2"]


def test_a_directory_that_vanishes_meanwhile(tree: Path) -> None:
    with pytest.raises(FileNotFoundError, match="d1"):
        list_folders(ListTask(str(tree), PackOptions(), ("d0/e0", "d1/gone")))


@pytest.mark.parametrize("symlinks", ["keep", "inside", "follow"])
def test_a_link_that_replaces_a_directory_is_not_listed(tree: Path, symlinks: Symlinks) -> None:
    (tree / "d0").rename(tree.parent / "elsewhere")
    (tree / "d0").symlink_to(tree.parent / "elsewhere")
    task = ListTask(str(tree), PackOptions(symlinks=symlinks), ("d0/e0",))
    if symlinks == "follow":
        assert list_folders(task).folders[0].names
        return
    with pytest.raises(PackError, match=f"^{tree}/d0/e0: changed while it was packed; pack again$"):
        list_folders(task)


def test_links_that_multiply_the_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each directory has ten links to the next one: 1,000 ways to the last one."""
    root = make_folder(tmp_path / "root", {f"d{depth}": {"x": b""} for depth in range(4)})
    for depth in range(3):
        for number in range(10):
            (root / f"d{depth}" / f"link{number}").symlink_to(f"../d{depth + 1}")
    compare(root)
    monkeypatch.setattr(folder_lister, "SHOWN_THROUGH_LINKS_LIMIT", 500)
    with pytest.raises(PackError, match=r"is one of over 500 behind links .* keep the links"):
        planned(root, tmp_path / "set", tmp_path / "plan")
    compare(root, symlinks="keep")


def test_a_source_that_is_missing_or_no_archive(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        planned(tmp_path / "none", tmp_path / "set", tmp_path / "plan")
    (tmp_path / "file").write_bytes(b"x" * 1000)
    with pytest.raises(PackError, match="not a tar or zip archive, or damaged"):
        planned(tmp_path / "file", tmp_path / "set", tmp_path / "plan")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_a_relative_path(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers have other working directories."""
    monkeypatch.chdir(tree.parent)
    planned(Path("tree"), Path("set"), Path("plan")).close()
    monkeypatch.chdir("/")
    with Plan(tree.parent / "plan") as plan:
        finish(plan)
    assert len(list((tree.parent / "set").glob("*.ffr"))) == 3
