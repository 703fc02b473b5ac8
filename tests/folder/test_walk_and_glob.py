"""PackedFolder.walk(), glob() and stat() behave like the standard library's, over a pack."""

from __future__ import annotations

import glob
import os
import stat
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ffrfs import PackedFolder, pack_folder
from ffrfs.errors import NotAFolderError, PathNotFoundError
from tests.ffrecord_file import Tree
from tests.folder.folder_model import make_folder, packed

TREE: Tree = {
    "labels.csv": b"l",
    "train": {"cat": {"1.jpg": b"1", "2.png": b"2"}, "dog": {".hidden": b"h", "1.jpg": b"3"}},
    "val": {"cat": {"1.jpg": b"4"}, "empty": {}},
}
LINKS = {"train/same": "cat", "val/to_file": "../labels.csv", "val/loop": "..", "nowhere": "x"}
TIME_NS = 1_234_567_890_123_456_789


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_folder(tmp_path_factory.mktemp("globs") / "folder", TREE)
    for path, target in LINKS.items():
        (folder / path).symlink_to(target)
    (folder / "labels.csv").chmod(0o640)
    os.utime(folder / "labels.csv", ns=(0, TIME_NS))
    return folder


@pytest.fixture(scope="module")
def pack(folder: Path) -> PackedFolder:
    pack_folder(folder, folder.parent / "x.ffr", symlinks="keep")
    return PackedFolder(folder.parent / "x.ffr")


def test_walk_equals_os_walk(pack: PackedFolder, folder: Path) -> None:
    for top in ("", "train", "val/empty"):
        expected = [
            (
                "" if path == str(folder) else os.path.relpath(path, folder),
                sorted(folders),
                sorted(set(files) - {"nowhere"}),  # a link to nothing is no file
            )
            for path, folders, files in os.walk(folder / top)
        ]
        assert sorted(pack.walk(top)) == sorted(expected)
    assert [path for path, _, _ in pack.walk()][:3] == ["", "train", "train/cat"]
    assert next(pack.walk(PurePosixPath("train"))) == ("train", ["cat", "dog", "same"], [])


def test_walk_skips_directories_removed_from_its_list(pack: PackedFolder) -> None:
    seen = []
    for path, folders, _ in pack.walk():
        seen.append(path)
        if path == "":
            folders[:] = ["val"]
    assert seen == ["", "val", "val/cat", "val/empty"]


def test_walk_from_a_path_that_is_no_directory(pack: PackedFolder) -> None:
    with pytest.raises(PathNotFoundError):
        pack.walk("absent")
    with pytest.raises(NotAFolderError):
        pack.walk("labels.csv")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*", ["labels.csv", "train", "val"]),
        ("labels.csv", ["labels.csv"]),
        ("train/*/*.jpg", ["train/cat/1.jpg", "train/dog/1.jpg", "train/same/1.jpg"]),
        ("train/[cd]o?/*", ["train/dog/.hidden", "train/dog/1.jpg"]),
        ("*/cat/1.jpg", ["train/cat/1.jpg", "val/cat/1.jpg"]),
        ("**/1.jpg", ["train/cat/1.jpg", "train/dog/1.jpg", "val/cat/1.jpg"]),
        ("**/cat/**/1.jpg", ["train/cat/1.jpg", "val/cat/1.jpg"]),
        ("train/*/", ["train/cat", "train/dog", "train/same"]),
        ("val/**", ["val", "val/cat", "val/cat/1.jpg", "val/empty", "val/loop", "val/to_file"]),
        ("./train//same/./1.*", ["train/same/1.jpg"]),
        ("train/../*", []),
        ("absent/*", []),
        ("labels.csv/*", []),
        ("TRAIN/*", []),
    ],
)
def test_patterns(pack: PackedFolder, pattern: str, found: list[str]) -> None:
    assert list(pack.glob(pattern)) == found
    assert list(pack.glob(PurePosixPath("/") / pattern)) == [
        path for path in found if not pattern.endswith("/") or pack.is_dir(path)
    ]


@pytest.mark.parametrize("pattern", ["", ".", "/", "./"])
def test_an_empty_pattern(pack: PackedFolder, pattern: str) -> None:
    with pytest.raises(ValueError, match="names no file"):
        pack.glob(pattern)


PARTS = ["*", "**", "?", "a", "b", "a*", "[ab]", "[!a]*", "*b", ".*", "c.d"]
NAMES = st.sampled_from(["a", "b", "ab", ".a", "c.d"])
FOLDERS = st.recursive(
    st.dictionaries(NAMES, st.just(b""), max_size=3),
    lambda folders: st.dictionaries(NAMES, folders | st.just(b""), max_size=4),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(
    tree=FOLDERS,
    patterns=st.lists(st.lists(st.sampled_from(PARTS), min_size=1, max_size=4), max_size=20),
)
def test_any_pattern_finds_the_same_paths_as_glob(
    tmp_path_factory: pytest.TempPathFactory, tree: Tree, patterns: list[list[str]]
) -> None:
    place = tmp_path_factory.mktemp("any")
    folder = make_folder(place / "folder", tree)
    (place / "x.ffr").write_bytes(packed(tree))
    with PackedFolder(place / "x.ffr") as pack:
        order = pack.list(recursive=True)
        for parts in patterns:
            pattern = "/".join(parts)
            expected = glob.glob(pattern, root_dir=folder, recursive=True, include_hidden=True)
            # Python 3.11 finds "file/" by "file/**", although no such path exists.
            there = [name for name in expected if os.path.lexists(f"{folder}/{name}")]
            names = {name.rstrip("/") for name in there} - {""}
            assert list(pack.glob(pattern)) == [path for path in order if path in names]


def test_a_pattern_lists_only_necessary_directories(
    pack: PackedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, listed = pack._tree, []
    entries = tree.entries

    def noted(ino: int) -> object:
        listed.append(tree.path(ino))
        return entries(ino)

    monkeypatch.setattr(tree, "entries", noted)
    assert list(pack.glob("train/cat/*.jpg")) == ["train/cat/1.jpg"]
    assert listed == ["train/cat"]
    listed.clear()
    assert list(pack.glob("*/cat/1.jpg")) == ["train/cat/1.jpg", "val/cat/1.jpg"]
    assert listed == [""]


def test_stat_equals_os_stat(pack: PackedFolder, folder: Path) -> None:
    for path in ("labels.csv", "train", "val/to_file", "val/loop", ""):
        ours, theirs = pack.stat(path), (folder / path).stat()
        assert isinstance(ours, os.stat_result)
        assert (ours.st_mode, ours.st_mtime_ns) == (theirs.st_mode, theirs.st_mtime_ns)
        assert ours.st_mtime == theirs.st_mtime
        assert ours[stat.ST_MTIME] == theirs[stat.ST_MTIME]
        if stat.S_ISREG(ours.st_mode):
            assert (ours.st_size, ours.st_nlink) == (theirs.st_size, 1)
    assert pack.stat("labels.csv").st_ino == pack.stat("val/to_file").st_ino != 0
    assert pack.stat("labels.csv").st_mtime_ns == TIME_NS
    with pytest.raises(PathNotFoundError):
        pack.stat("nowhere")
