"""extract: it restores the folder, and harms nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from ffrfs.errors import OptionError
from ffrfs.folder import destination
from ffrfs.folder.destination import Destination
from ffrfs.folder.extract import extract, extract_tree
from ffrfs.folder.tree import PackTree, PathType
from tests.ffrecord_file import Tree, flip_byte, record_extents, write_folder, write_records
from tests.folder.folder_model import make_folder, packed, read_folder, trees

LARGE = os.urandom(5 << 20) + b"end"
TREE: Tree = {
    "a": {"large": LARGE, "x": b"x", "b": {"y": b"y" * 5000}},
    "empty": {},
    "nothing": b"",
    "z": b"zz",
}


def run(file: Path, target: Path, *paths: PathType) -> list[str]:
    with PackTree(file) as tree:
        return extract_tree(tree, target, paths)


@settings(max_examples=50)
@given(tree=trees)
def test_extraction_restores_any_folder(
    tmp_path_factory: pytest.TempPathFactory, tree: Tree
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "x.ffr").write_bytes(packed(tree))
    assert run(folder / "x.ffr", folder / "out") == []
    assert read_folder(folder / "out") == tree


@pytest.mark.parametrize("wrong", ["Skip", "stop", None, True, print], ids=repr)
def test_an_invalid_on_error_is_refused(file: Path, tmp_path: Path, wrong: Any) -> None:
    """A wrong on_error must not leave out damaged files without an error."""
    with pytest.raises(OptionError, match=r'^on_error is "raise" or "skip", not '):
        extract(file, tmp_path / "out", on_error=wrong)
    assert not (tmp_path / "out").exists()


def test_more_files_than_one_batch(tmp_path: Path) -> None:
    """More in number, and more in bytes; large files between them are written in pieces."""
    tree: dict[str, bytes] = {f"{i:04d}": b"%d" % i * (i % 5) for i in range(3000)}
    tree |= {f"{i:04d} large": bytes([i % 251]) * ((1 << 20) + i) for i in range(0, 3000, 300)}
    tree |= {f"{i:04d} medium": bytes([i % 251]) * 900_000 for i in range(0, 3000, 50)}
    pack = write_folder(tmp_path / "many.ffr", dict(tree))
    assert run(pack, tmp_path / "out") == []
    assert read_folder(tmp_path / "out") == tree


@pytest.mark.parametrize(
    ("paths", "tree"),
    [
        (["z"], {"z": b"zz"}),
        (["a/b"], {"a": {"b": TREE["a"]["b"]}}),  # type: ignore[index, call-overload]
        (["./a//b/y", "empty/"], {"a": {"b": TREE["a"]["b"]}, "empty": {}}),  # type: ignore[index, call-overload]
        (["z", "z", "."], TREE),
        (["a", "a/x"], {"a": TREE["a"]}),
    ],
)
def test_some_paths(file: Path, tmp_path: Path, paths: list[str], tree: Tree) -> None:
    assert run(file, tmp_path / "out", *paths) == []
    assert read_folder(tmp_path / "out") == tree


def test_each_directory_of_a_deep_tree_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree: Tree = {}
    for depth in range(200, 0, -1):
        tree = {"a": {"f": b"%d" % depth, **tree}}
    write_folder(tmp_path / "deep.ffr", tree)
    made: list[str] = []
    make = destination._make

    def noted(folder: int, name: str, mode: int) -> bool:
        made.append(name)
        return make(folder, name, mode)

    monkeypatch.setattr(destination, "_make", noted)
    run(tmp_path / "deep.ffr", tmp_path / "out")
    assert made == ["a"] * 200
    assert (tmp_path / "out" / "a/a/a/f").read_bytes() == b"3"


def test_a_plain_file_gives_numbered_files(tmp_path: Path) -> None:
    write_records(tmp_path / "plain.ffr", [b"first", b"", b"third"])
    assert run(tmp_path / "plain.ffr", tmp_path / "out") == []
    assert list(read_folder(tmp_path / "out").values()) != []
    assert [data for _, data in sorted(read_folder(tmp_path / "out").items())] == [
        b"first",
        b"",
        b"third",
    ]


def test_the_umask_decides_the_mode(file: Path, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        run(file, tmp_path / "out")
    finally:
        os.umask(before)
    assert (tmp_path / "out" / "z").stat().st_mode & 0o7777 == 0o640
    assert (tmp_path / "out" / "a").stat().st_mode & 0o7777 == 0o750


def test_into_a_folder_with_other_files(file: Path, tmp_path: Path) -> None:
    make_folder(tmp_path / "out", {"a": {"mine": b"mine"}})
    assert run(file, tmp_path / "out", "a/x") == []
    assert read_folder(tmp_path / "out") == {"a": {"mine": b"mine", "x": b"x"}}


@pytest.mark.parametrize("path", ["z", "a/large"])
@pytest.mark.parametrize("kind", ["file", "folder", "dangling link", "link"])
def test_nothing_is_overwritten(file: Path, tmp_path: Path, path: str, kind: str) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    target = tmp_path / "out" / path
    target.parent.mkdir(parents=True)
    if kind == "file":
        target.write_bytes(b"precious")
    elif kind == "folder":
        target.mkdir()
    else:
        target.symlink_to(victim if kind == "link" else tmp_path / "new")
    before = sorted(target.parent.iterdir())
    with pytest.raises(FileExistsError, match=f"^{target}: exists already"):
        run(file, tmp_path / "out", path)
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "new").exists()
    assert sorted(target.parent.iterdir()) == before
    if kind == "file":
        assert target.read_bytes() == b"precious"


@pytest.mark.parametrize("link", ["a", "a/b"])
def test_no_link_below_the_destination_is_followed(file: Path, tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "out" / link).parent.mkdir(parents=True)
    (tmp_path / "out" / link).symlink_to(outside)
    with pytest.raises(NotADirectoryError) as caught:
        run(file, tmp_path / "out", "a/b/y")
    assert caught.value.filename == str(tmp_path / "out" / "a/b")
    assert "symbolic link" in caught.value.strerror
    assert list(outside.iterdir()) == []


def test_a_file_in_the_way_of_a_folder(file: Path, tmp_path: Path) -> None:
    make_folder(tmp_path / "out", {"a": b"precious"})
    with pytest.raises(NotADirectoryError):
        run(file, tmp_path / "out")
    assert read_folder(tmp_path / "out") == {"a": b"precious"}


def test_the_destination_itself_may_be_a_link(file: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to("real")
    assert run(file, tmp_path / "out") == []
    assert read_folder(tmp_path / "real") == TREE


def test_damaged_files_are_named_and_the_others_extracted(file: Path, tmp_path: Path) -> None:
    extents = record_extents(file)  # a/b/y, a/large, a/x, nothing, z
    flip_byte(file, extents[1][0] + len(LARGE) - 1)
    flip_byte(file, extents[2][0])
    bad = run(file, tmp_path / "out")
    assert [reason.split(" (")[0] for reason in sorted(bad)] == [
        f"{file}: 'a/large': record 1",
        f"{file}: 'a/x': record 2",
    ]
    assert read_folder(tmp_path / "out") == {
        **TREE,
        "a": {"b": TREE["a"]["b"]},  # type: ignore[index, call-overload]
    }


def failing_pieces():
    yield b"half of it"
    raise RuntimeError


@pytest.fixture
def without_tmpfile(monkeypatch: pytest.MonkeyPatch) -> None:
    system_open = os.open

    def open_named(path: str, flags: int, *args: int, **more: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError("not on this file system")
        return system_open(path, flags, *args, **more)

    monkeypatch.setattr(os, "open", open_named)


@pytest.mark.parametrize("unnamed", [True, False], ids=["O_TMPFILE", "no O_TMPFILE"])
def test_a_file_is_complete_or_absent(
    request: pytest.FixtureRequest, tmp_path: Path, unnamed: bool
) -> None:
    if not unnamed:
        request.getfixturevalue("without_tmpfile")
    with Destination(str(tmp_path / "out")) as destination:
        with pytest.raises(RuntimeError):
            destination.write("d/f", failing_pieces())
        assert read_folder(tmp_path / "out") == {"d": {}}
        destination.write("d/f", [b"all ", b"", b"of it"])
        with pytest.raises(FileExistsError):
            destination.write("d/f", [b"again"])
    assert read_folder(tmp_path / "out") == {"d": {"f": b"all of it"}}


@pytest.mark.usefixtures("without_tmpfile")
def test_files_are_written_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(*_: object, **__: object) -> None:
        raise PermissionError("not on this file system, either")

    monkeypatch.setattr(os, "link", no_link)
    with Destination(str(tmp_path / "out")) as destination:
        destination.write("f", [b"all of it"])
    assert read_folder(tmp_path / "out") == {"f": b"all of it"}


def test_a_file_created_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pieces():
        yield b"ours"
        (tmp_path / "out" / "f").write_bytes(b"theirs")

    with Destination(str(tmp_path / "out")) as destination, pytest.raises(FileExistsError):
        destination.write("f", pieces())
    assert read_folder(tmp_path / "out") == {"f": b"theirs"}


def test_a_replaced_file_is_kept_if_the_link_fails(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("kept")
    (tmp_path / "d").mkdir()
    with Destination(os.fspath(tmp_path), "replace") as target:
        with pytest.raises(OSError, match=r"too long: .*/a"):
            target.link("a", "x" * 5000)
        assert (tmp_path / "a").read_text() == "kept"
        with pytest.raises(IsADirectoryError):
            target.link("d", "b")
        target.link("a", "b")
    assert os.readlink(tmp_path / "a") == "b"
    assert sorted(os.listdir(tmp_path)) == ["a", "d"]
