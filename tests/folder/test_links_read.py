"""Modes, times and symbolic links of a pack: shown, followed inside it, and extracted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ffrfs import PackedFolder, pack_folder
from ffrfs.errors import IsAFolderError, NotAFolderError, PathNotFoundError
from ffrfs.folder.extract import extract_tree
from ffrfs.folder.tree import PackTree
from tests.ffrecord_file import Tree
from tests.folder.folder_model import make_folder, packed

TREE: Tree = {"a": {"b": {"deep": b"deep"}, "x": b"x"}, "empty": {}, "z": b"zz"}
LINKS = {
    "to_file": "a/x",
    "to_folder": "a/b",
    "a/up": "../z",
    "a/b/self": "../b",
    "chain": "to_folder/self/deep",
    "dangling": "nowhere",
    "out": "../z",
    "a/b/far_out": "../../../../etc/passwd",
    "absolute": "/etc/passwd",
    "loop": "pool",
    "pool": "loop",
    "empty/dot": ".",
}
TIME_NS = 1_234_567_890_123_456_789


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_folder(tmp_path_factory.mktemp("links") / "folder", TREE)
    for path, target in LINKS.items():
        (folder / path).symlink_to(target)
    (folder / "z").chmod(0o640)
    (folder / "a" / "x").chmod(0o755)
    (folder / "a").chmod(0o2751)  # only the permission bits are packed
    (folder / "empty").chmod(0o555)
    for number, path in enumerate(sorted(folder.rglob("*"), reverse=True)):
        os.utime(path, ns=(0, TIME_NS + number), follow_symlinks=False)
    os.utime(folder / "z", ns=(0, -1))
    os.utime(folder, ns=(0, 5))
    return folder


@pytest.fixture(scope="module")
def file(folder: Path) -> Path:
    pack_folder(folder, folder.parent / "x.ffr", symlinks="keep")
    return folder.parent / "x.ffr"


def state(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return kind and permissions, time, and bytes or target of everything in the folder."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        content = (
            os.readlink(path)
            if path.is_symlink()
            else path.read_bytes()
            if path.is_file()
            else None
        )
        mode = 0 if path.is_symlink() else status.st_mode & 0o777
        found[str(path.relative_to(folder))] = (mode, status.st_mtime_ns, content)
    return found


def test_extraction_restores_the_packed_folder(file: Path, folder: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int, int, int]] = []
    before = os.umask(0o077)
    try:
        with PackTree(file) as tree:
            assert extract_tree(tree, tmp_path / "out", progress=lambda *s: seen.append(s)) == []
    finally:
        os.umask(before)
    assert state(tmp_path / "out") == state(folder)
    assert seen[-1] == (3 + len(LINKS), 3 + len(LINKS), 7, 7)


def test_metadata_of_existing_folders_is_kept(file: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "a").mkdir(parents=True, mode=0o700)
    (tmp_path / "out").chmod(0o700)
    with PackTree(file) as tree:
        extract_tree(tree, tmp_path / "out")
    for folder in (tmp_path / "out", tmp_path / "out" / "a"):
        assert folder.stat().st_mode & 0o777 == 0o700
        assert folder.stat().st_mtime_ns > TIME_NS + 1000
    assert (tmp_path / "out" / "a" / "b").stat().st_mtime_ns < TIME_NS + 1000


def modes(folder: Path) -> dict[str, int]:
    """Return the permissions of the directory and of all directories below it."""
    found = [
        folder,
        *(path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink()),
    ]
    return {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in found}


def test_an_interrupted_extraction_sets_modes_and_can_resume(
    file: Path, folder: Path, tmp_path: Path
) -> None:
    out, meanwhile = tmp_path / "out", []

    def end(*_: object) -> None:
        meanwhile.append(modes(out))
        raise KeyboardInterrupt

    with PackTree(file) as tree:
        with pytest.raises(KeyboardInterrupt):
            extract_tree(tree, out, progress=end)
        assert set(meanwhile[0].values()) == {0o700}
        # The owner keeps every right, to go on.
        assert modes(out) == {path: mode | 0o700 for path, mode in modes(folder).items()}
        extract_tree(tree, out, existing="skip")
    was, now = state(folder), state(out)
    del was["."], now["."]  # the second run left `out` alone: it was there
    assert now == was


def test_skip_restores_metadata_after_a_killed_extraction(
    file: Path, folder: Path, tmp_path: Path
) -> None:
    for path in ("a/b", "empty"):
        (tmp_path / "out" / path).mkdir(parents=True)
    with PackTree(file) as tree:
        extract_tree(tree, tmp_path / "out", ["a/b/deep", "empty"], existing="skip")
    was, now = state(folder), state(tmp_path / "out")
    for path in ("a", "a/b", "a/b/deep", "empty"):
        assert now[path] == was[path]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's directory")
def test_skip_does_not_change_another_users_directory(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "out" / "a"
    other.mkdir(parents=True, mode=0o700)
    os.chown(other, 65534, 65534)
    with PackTree(file) as tree:
        extract_tree(tree, tmp_path / "out", existing="skip")
    assert other.stat().st_mode & 0o777 == 0o700


def test_metadata_of_parents_of_a_named_path_is_restored(
    file: Path, folder: Path, tmp_path: Path
) -> None:
    with PackTree(file) as tree:
        extract_tree(tree, tmp_path / "out", ["a/b/deep"])
    was = state(folder)
    assert state(tmp_path / "out") == {path: was[path] for path in (".", "a", "a/b", "a/b/deep")}


def test_without_an_index_no_metadata_is_restored(tmp_path: Path) -> None:
    (tmp_path / "x.ffr").write_bytes(packed(TREE))
    with PackTree(tmp_path / "x.ffr") as tree:
        assert tree.stored(tree.find("z")) is None
        extract_tree(tree, tmp_path / "out")
    assert (tmp_path / "out" / "z").stat().st_mtime_ns > TIME_NS + 1000


def test_an_existing_link_is_not_replaced_or_followed(file: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "to_file").symlink_to(victim)
    with PackTree(file) as tree, pytest.raises(FileExistsError, match="exists already"):
        extract_tree(tree, tmp_path / "out", ["to_file"])
    assert victim.read_bytes() == b"precious"
    assert os.readlink(tmp_path / "out" / "to_file") == str(victim)


def test_links_are_made_last(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    for name in ("link", "symlink"):
        call = getattr(os, name)

        def recording(*args: object, _name: str = name, _call=call, **more: object) -> None:
            done.append(_name)
            _call(*args, **more)

        monkeypatch.setattr(os, name, recording)
    with PackTree(file) as tree:
        extract_tree(tree, tmp_path / "out")
    assert done == ["link"] * 3 + ["symlink"] * len(LINKS)


def test_links_are_followed_inside_the_pack(file: Path) -> None:
    with PackedFolder(file) as pack:
        for path, data in [
            ("to_file", b"x"),
            ("to_folder/deep", b"deep"),
            ("to_folder/self/self/deep", b"deep"),
            ("chain", b"deep"),
            ("a/up", b"zz"),
            ("empty/dot/dot/../empty/dot", None),
        ]:
            if data is not None:
                assert pack.read_one(path).tobytes() == data
                assert pack.is_file(path)
                assert not pack.is_dir(path)
        assert pack.is_dir("to_folder")
        assert pack.is_dir("empty/dot/dot")
        assert pack.list("to_folder") == ["deep", "self"]
        with pytest.raises(IsAFolderError):
            pack.read_one("to_folder")
        with pytest.raises(NotAFolderError):
            pack.list("chain")


@pytest.mark.parametrize(
    "path",
    [
        *("dangling", "out", "a/b/far_out", "absolute", "loop", "pool/x", "to_file/x"),
        *("to_folder/../x", "empty/dot/../z", "to_folder/nope"),
    ],
)
def test_dangling_links(file: Path, path: str) -> None:
    with PackedFolder(file) as pack:
        assert not pack.exists(path)
        assert not pack.is_file(path)
        assert not pack.is_dir(path)
        with pytest.raises(PathNotFoundError):
            pack.read_one(path)


def test_lists_classify_links_by_their_targets(file: Path) -> None:
    with PackedFolder(file) as pack:
        assert pack.list(list_dir=False) == ["chain", "to_file", "z"]
        assert pack.list(list_file=False) == ["a", "empty", "to_folder"]
        assert pack.list("a", recursive=True) == ["b", "b/deep", "b/self", "up", "x"]
        assert pack.num_files() == 3


def test_the_tree_shows_links_as_links(file: Path) -> None:
    with PackTree(file) as tree:
        entries = {entry.path: entry for entry in tree.entries(tree.folder_ino(""), recursive=True)}
        links = {path for path, entry in entries.items() if entry.is_link}
        assert links == LINKS.keys()
        for path, target in LINKS.items():
            assert tree.target(entries[path].attributes.ino) == target
            assert entries[path].attributes.size == len(target)
        assert tree.target(tree.find("z")) == ""
        assert tree.stored(tree.find("z")) == (0o640, -1)
        assert tree.stored(tree.find("a")) is not None
