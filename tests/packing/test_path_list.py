"""Of directories, archives and packs, only the paths of a list are packed, in its order."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ffrfs import pack_archive, pack_folder
from ffrfs.errors import PackError
from ffrfs.packing.pack import PackSummary, repack
from ffrfs.packing.sources import folder_lister
from ffrfs.packing.sources.path_list import PathList
from tests.ffrecord_file import Tree
from tests.folder.archives import write_tree
from tests.folder.folder_model import make_folder, read_records, shown_tree, trees, walk

TREE: Tree = {
    "a": {"one": b"1", "two": b"22", "e": {"deep": b"333"}, "empty": {}},
    "b": b"4444",
    "c": {"five": b"55555"},
    "nothing": {},
}

# Packs the listed files of TREE, with any further options.
Pack = Callable[..., PackSummary]


@pytest.fixture(params=["directory", "archive", "pack"])
def pack_of(request: pytest.FixtureRequest, tmp_path: Path) -> Pack:
    folder = make_folder(tmp_path / "src", TREE)

    def pack(files: Any, **options: Any) -> PackSummary:
        out = tmp_path / "x.ffr"
        if request.param == "directory":
            return pack_folder(folder, out, files=files, force=True, **options)
        if request.param == "archive":
            archive = write_tree(tmp_path / "src.tar", TREE)
            return pack_archive(archive, out, files=files, force=True, **options)
        pack_folder(folder, tmp_path / "src.ffr", force=True)
        return repack(tmp_path / "src.ffr", out, files=files, force=True, **options)

    return pack


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["b"], {"b": b"4444"}),
        (["./a/two", Path("a/one")], {"a": {"one": b"1", "two": b"22"}}),
        (["a/e/"], {"a": {"e": {"deep": b"333"}}}),
        (["a/one", "a/one", "a//one"], {"a": {"one": b"1"}}),
        (["a/one", "a", "a/e/deep"], {"a": TREE["a"]}),
        (["a", "a/one"], {"a": TREE["a"]}),
        (["nothing"], {"nothing": {}}),
        (["c/five", "", "nothing"], {"c": {"five": b"55555"}, "nothing": {}}),
        (["."], TREE),
        (["b", "./"], TREE),
        ([], {}),
    ],
)
def test_only_listed_paths_are_packed(
    tmp_path: Path, pack_of: Pack, files: list[str], expected: Tree
) -> None:
    pack_of(files)
    assert shown_tree(tmp_path / "x.ffr") == expected


@pytest.mark.parametrize(
    ("files", "number"),
    [
        (["b", "none"], 2),
        (["a/none", "none"], 1),
        (["b/below"], 1),
        (["", "a/e/deep/x", "b"], 2),
        (["a", "a/none"], 2),
    ],
)
def test_a_listed_path_that_does_not_exist(
    tmp_path: Path, pack_of: Pack, files: list[str], number: int
) -> None:
    with pytest.raises(PackError) as caught:
        pack_of(files)
    start = f"files: item {number}: {files[number - 1]!r} is not in {tmp_path}/src"
    assert str(caught.value).startswith(start)
    assert not (tmp_path / "x.ffr").exists()


@pytest.mark.parametrize(("path", "reason"), [("/a", "is absolute"), ("a/../b", "leads upwards")])
def test_a_listed_path_outside_the_source(
    tmp_path: Path, pack_of: Pack, path: str, reason: str
) -> None:
    with pytest.raises(PackError, match=f"^files: item 2: '{path}' {reason}"):
        pack_of(["b", path])


def test_patterns_choose_among_the_listed_paths(tmp_path: Path, pack_of: Pack) -> None:
    pack_of(["a", "b"], exclude=["one", "b"])
    assert shown_tree(tmp_path / "x.ffr") == {
        "a": {"two": b"22", "e": {"deep": b"333"}, "empty": {}}
    }
    pack_of(["a/one", "a/two", "b"], include=["two", "b"])
    assert shown_tree(tmp_path / "x.ffr") == {"a": {"two": b"22"}, "b": b"4444"}
    with pytest.raises(PackError, match="matches --include 'five'"):
        pack_of(["a"], include=["five"])
    with pytest.raises(PackError, match=r"item 1: 'a/one' is not in .*, or is excluded"):
        pack_of(["a/one"], exclude=["a"])


def test_files_are_packed_in_the_order_of_the_list(
    tmp_path: Path, pack_of: Pack, request: Any
) -> None:
    files = ["c", "a/two", "a", "b"]
    pack_of(files)
    records = read_records(tmp_path / "x.ffr")[:-1]
    listed = [b"55555", b"22", b"333", b"1", b"4444"]
    is_archive = "archive" in request.node.callspec.id
    assert records == ([b"333", b"1", b"22", b"4444", b"55555"] if is_archive else listed)
    if not is_archive:
        pack_of(files, order="size")
        assert read_records(tmp_path / "x.ffr")[:-1] == sorted(listed)


def test_unlisted_paths_are_not_examined(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "src", TREE)
    os.mkfifo(folder / "c" / "pipe")
    (folder / "a" / "e" / "link").symlink_to("/nowhere")
    pack_folder(folder, tmp_path / "x.ffr", files=["a/one"])
    assert shown_tree(tmp_path / "x.ffr") == {"a": {"one": b"1"}}


def test_listed_paths_through_links(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "src", TREE)
    (folder / "link").symlink_to("a")
    pack_folder(folder, tmp_path / "x.ffr", files=["link/one"])
    assert shown_tree(tmp_path / "x.ffr") == {"link": {"one": b"1"}}
    pack_folder(folder, tmp_path / "x.ffr", files=["link"], symlinks="keep", force=True)
    assert shown_tree(tmp_path / "x.ffr") == {"link": b"a"}
    with pytest.raises(PackError, match="'link/one' is not in"):
        pack_folder(folder, tmp_path / "x.ffr", files=["link/one"], symlinks="keep", force=True)


def test_equal_files_of_a_list(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "src", {"a": b"xx", "b": b"yy", "c": b"xx", "d": b"xx"})
    for options in ({}, {"dedup": True}):
        pack_folder(folder, tmp_path / "old.ffr", force=True, **options)
        summary = repack(
            tmp_path / "old.ffr", tmp_path / "x.ffr", files=["c", "b", "a"], dedup=True, force=True
        )
        assert (summary.file_count, summary.shared_count) == (3, 1)
        assert shown_tree(tmp_path / "x.ffr") == {"a": b"xx", "b": b"yy", "c": b"xx"}


@settings(max_examples=30)
@given(tree=trees, data=st.data())
def test_any_list(
    tmp_path_factory: pytest.TempPathFactory, tree: Tree, data: st.DataObject
) -> None:
    place = tmp_path_factory.mktemp("any")
    files = [path for path, content in walk(tree) if content is not None]
    chosen = data.draw(st.lists(st.sampled_from(files), unique=True)) if files else []
    folder = make_folder(place / "src", tree)
    contents = dict(walk(tree))
    pack_folder(folder, place / "all.ffr")
    for pack, source in ((pack_folder, folder), (repack, place / "all.ffr")):
        pack(source, place / "x.ffr", files=chosen, force=True)  # type: ignore[operator]
        assert dict(walk(shown_tree(place / "x.ffr"))) == {
            **{path: contents[path] for path in chosen},
            **{str(above): None for path in chosen for above in Path(path).parents if above.name},
        }
        assert read_records(place / "x.ffr")[:-1] == [contents[path] for path in chosen]


def read(data: bytes, tmp_path: Path, null: bool = False) -> PathList:
    (tmp_path / "list").write_bytes(data)
    return PathList.read(str(tmp_path / "list"), null=null)


def names(listed: PathList) -> Iterable[tuple[str, Any]]:
    return listed.root.children.items()


def test_the_lines_of_a_list(tmp_path: Path) -> None:
    assert dict(names(read(b"a\n\nb\r\nc d", tmp_path))) == {"a": 1, "b": 3, "c d": 4}
    assert dict(names(read(b"a\nb\0c\r\0", tmp_path, null=True))) == {"a\nb": 1, "c\r": 2}
    assert dict(names(read("é\n".encode() + b"\xff", tmp_path))) == {"é": 1, "\udcff": 2}
    assert dict(names(read(b"", tmp_path))) == {}
    many = b"".join(b"%07d\n" % number for number in range(300_000))  # more than is read at once
    assert dict(names(read(many, tmp_path))) == {f"{n:07d}": n + 1 for n in range(300_000)}


def test_a_line_without_an_end(tmp_path: Path) -> None:
    with pytest.raises(PackError, match=f"^{tmp_path}/list: not a list of paths"):
        read(bytes(100_000), tmp_path)


def test_a_missing_path_is_named_with_its_line(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "src", TREE)
    for data, null in ((b"b\n\nnone\n", False), (b"b\0\0none\0", True)):
        with pytest.raises(PackError) as caught:
            pack_folder(folder, tmp_path / "x.ffr", files=read(data, tmp_path, null))
        assert str(caught.value) == (
            f"{tmp_path}/list: line 3: 'none' is not in {folder}, or is excluded"
        )


@pytest.mark.parametrize(("files", "is_named"), [(["a", "b"], True), (["a"], False)])
def test_a_listed_path_that_vanishes_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], *, is_named: bool
) -> None:
    """What only its directory lists may vanish, as if it had never been there."""
    folder = make_folder(tmp_path / "src", {"a": {"one": b"1", "two": b"22"}, "b": b"333"})
    scanned = folder_lister._scanned

    def vanishing(fd: int, path: str) -> Iterator[os.DirEntry[str]]:
        found = list(scanned(fd, path))
        for name in ("b", "two"):
            Path(path, name).unlink(missing_ok=True)
        return iter(found)

    monkeypatch.setattr(folder_lister, "_scanned", vanishing)
    pack = partial(pack_folder, folder, tmp_path / "x.ffr", files=files, exclude=["no"])
    if is_named:
        with pytest.raises(PackError, match=r"^files: item 2: 'b' is not in "):
            pack()
    else:
        pack()
        assert shown_tree(tmp_path / "x.ffr") == {"a": {"one": b"1"}}


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n/b\n")))
    with pytest.raises(PackError, match=r"^standard input: line 2: '/b' is absolute"):
        PathList.read("-")


def test_one_string_instead_of_a_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not one string: 'a'"):
        pack_folder(make_folder(tmp_path / "src", TREE), tmp_path / "x.ffr", files="a")
