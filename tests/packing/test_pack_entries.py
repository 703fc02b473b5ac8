"""The entries of packs: modes, times, links, equal files, and their order."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ffrfs import pack_folder
from ffrfs._native import EntryList
from ffrfs.errors import PackError
from ffrfs.packing.sources import duplicates, opening
from ffrfs.packing.sources.options import PackOptions
from ffrfs.packing.sources.order import number
from ffrfs.packing.sources.source import Source
from tests.ffrecord_file import Tree
from tests.folder.folder_model import (
    assert_packed,
    make_folder,
    read_as_reference,
    read_records,
    shown,
    shown_tree,
    trees,
    walk,
)

TREE: Tree = {
    "a": {"x.png": b"picture", "y.png": b"PICTURE", "z": {"deep": b"picture"}},
    "b": b"b",
    "none": b"",
    "one more": b"",
}
TIME_NS = 1_234_567_890_123_456_789


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "x.ffr"


def test_modes_and_times(folder: Path, out: Path) -> None:
    (folder / "b").chmod(0o4751)
    (folder / "a" / "x.png").chmod(0o600)
    os.utime(folder / "b", ns=(0, TIME_NS))
    os.utime(folder / "none", ns=(0, -1))
    os.utime(folder / "a" / "z", ns=(0, 7))
    pack_folder(folder, out)
    entries = shown(out)
    assert entries["b"].mtime_ns == TIME_NS
    assert entries["none"].mtime_ns == -1
    assert entries["a/z"].mtime_ns == 7
    # Write permission is kept, too, though the tree refuses every write.
    assert stat.S_IMODE(entries["b"].mode) == 0o751
    assert stat.S_IMODE(entries["a/x.png"].mode) == 0o600


# Years that some file systems (such as tmpfs) can hold, but not nanoseconds in 64 bits.
@pytest.mark.parametrize("year", [-5000, 1600, 2300, 5000])
def test_times_out_of_range_become_the_nearest_possible(year: int) -> None:
    time_ns = int((year - 1970) * 365.2425) * 86_400_000_000_000
    nearest_ns = 1 - 2**63 if time_ns < 0 else 2**63 - 1
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        folder = make_folder(Path(memory) / "folder", TREE)
        pack = Path(memory) / "x.ffr"
        for path in (folder / "b", folder / "a" / "x.png", folder / "a", folder):
            os.utime(path, ns=(0, time_ns))
        pack_folder(folder, pack)
        entries = shown(pack)
        assert [entries[path].mtime_ns for path in ("b", "a/x.png", "a")] == [nearest_ns] * 3
        # The pack's own time may be out of range, too.
        os.utime(pack, ns=(0, time_ns))
        assert shown(pack) == entries


def test_links_are_kept(folder: Path, out: Path) -> None:
    targets = {
        "a/link": b"x.png",
        "up": b"../../..",
        "folder": b"a/z",
        "nowhere": b"/no/such\xff",
        "long": b"/" + b"l" * 4094,
    }
    for path, target in targets.items():
        os.symlink(target, os.fsencode(folder / path))
    os.utime(folder / "up", ns=(0, TIME_NS), follow_symlinks=False)
    summary = pack_folder(folder, out, symlinks="keep")
    assert (summary.file_count, summary.folder_count, summary.link_count) == (6, 2, 5)
    entries = shown(out)
    assert {path: entries[path].content for path in targets} == targets
    assert all(stat.S_ISLNK(entries[path].mode) for path in targets)
    assert entries["up"].mtime_ns == TIME_NS
    assert_packed(out, TREE)  # the reference sees no links


def test_equal_files_are_stored_once(folder: Path, out: Path) -> None:
    make_folder(folder / "c", {"x.png": b"picture", "w": b"b"})
    os.utime(folder / "c" / "w", ns=(0, TIME_NS))
    summary = pack_folder(folder, out, dedup=True)
    assert (summary.file_count, summary.shared_count) == (8, 4)
    assert (summary.byte_count, summary.stored_byte_count) == (7 * 4 + 2, 7 * 2 + 1)
    assert read_records(out)[:-1] == [b"picture", b"PICTURE", b"b", b""]
    expected: Tree = {**TREE, "c": {"x.png": b"picture", "w": b"b"}}
    assert shown_tree(out) == read_as_reference(out) == expected
    assert shown(out)["c/w"].mtime_ns == TIME_NS
    assert shown(out)["b"].mtime_ns != TIME_NS


@settings(max_examples=25)
@given(tree=trees, shards=st.sampled_from([None, 2]))
def test_any_folder_with_equal_files(
    tmp_path_factory: pytest.TempPathFactory, tree: Tree, shards: int | None
) -> None:
    folder = make_folder(tmp_path_factory.mktemp("any") / "folder", {"1": tree, "2": tree})
    out = folder.parent / "out"
    summary = pack_folder(folder, out, dedup=True, shards=shards)
    assert shown_tree(out) == {"1": tree, "2": tree}
    contents = {content for _, content in walk(tree) if content is not None}
    assert summary.file_count - summary.shared_count == len(contents)


def test_files_of_equal_size_with_different_bytes(folder: Path, out: Path) -> None:
    make_folder(folder, {f"{i:03}": i.to_bytes(2, "little") * 2000 for i in range(300)})
    summary = pack_folder(folder, out, dedup=True, jobs=3)
    assert summary.shared_count == 2  # the equal files of TREE
    assert shown(out)["299"].content == (299).to_bytes(2, "little") * 2000


def test_a_file_that_changes_before_it_is_compared(folder: Path, out: Path) -> None:
    class Meddled(Source):
        def digests(self, *arguments: Any) -> Any:
            Path(self.name, "a/y.png").write_bytes(b"longer than before")
            return super().digests(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "Source", Meddled)
        with pytest.raises(PackError, match=f"^{folder}/a/y.png: changed size .*was 7 bytes"):
            pack_folder(folder, out, dedup=True)
    assert not out.exists()


def test_only_files_of_equal_size_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    class Watched(Source):
        def digests(self, files: Any, jobs: int) -> Any:
            read.extend(map(os.fsdecode, self.entries.paths(files)))
            return super().digests(files, jobs)

    source = Watched(str(folder), PackOptions())
    duplicates.share_duplicates(source, 2)
    assert read == ["a/x.png", "a/y.png", "a/z/deep"]


@pytest.mark.parametrize(
    ("order", "paths"),
    [
        (None, ["a/x.png", "a/y.png", "a/z/deep", "b", "none", "one more"]),
        ("path", ["a/x.png", "a/y.png", "a/z/deep", "b", "none", "one more"]),
        ("size", ["none", "one more", "b", "a/x.png", "a/y.png", "a/z/deep"]),
        (
            b"./one more\n\na/z/deep\r\na/x.png",
            ["one more", "a/z/deep", "a/x.png", "a/y.png", "b", "none"],
        ),
        (b"", ["a/x.png", "a/y.png", "a/z/deep", "b", "none", "one more"]),
    ],
)
def test_order(
    folder: Path, tmp_path: Path, out: Path, order: str | bytes | None, paths: list[str]
) -> None:
    pack_folder(folder, out, order=order_file(tmp_path, order))
    assert read_records(out)[:-1] == [(folder / path).read_bytes() for path in paths]
    assert shown_tree(out) == read_as_reference(out) == TREE
    pack_folder(folder, tmp_path / "set", order=order_file(tmp_path, order), shards=2)
    assert shown_tree(tmp_path / "set") == TREE


def order_file(tmp_path: Path, order: str | bytes | None) -> Any:
    if not isinstance(order, bytes):
        return order
    (tmp_path / "order.txt").write_bytes(order)
    return tmp_path / "order.txt"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (b"b\nc\n", "line 2: 'c'", "is not a file to be packed; remove the line"),
        (b"\na\n", "line 2: 'a'", "is not a file to be packed; remove the line"),  # a folder
        (b"../b", "line 1: '../b'", "is not a file to be packed; remove the line"),
        (b"b/", "line 1: 'b/'", "is not a file to be packed; remove the line"),
        (b"b\nnone\n./b", "line 3: 'b'", "is listed twice; remove one of the lines"),
    ],
)
def test_invalid_lines_of_an_order_file(
    folder: Path, tmp_path: Path, out: Path, *, text: bytes, line: str, reason: str
) -> None:
    order = order_file(tmp_path, text)
    with pytest.raises(PackError) as caught:
        pack_folder(folder, out, order=order)
    assert str(caught.value) == f"{order}: {line} {reason}"
    assert not out.exists()


def test_a_missing_order_file(folder: Path, out: Path) -> None:
    with pytest.raises(PackError, match=r"^--order sizes: must be path, size, or a file with one "):
        pack_folder(folder, out, order="sizes")


def test_an_order_of_equal_files() -> None:
    entries = EntryList()
    first = entries.add_files(0, [(b"a", 1, 0o644, 0), (b"b", 1, 0o644, 0), (b"c", 0, 0o644, 0)])
    entries.share(first + 1, first)
    number(entries, "size")
    assert entries.files(0, entries.record_count) == [first + 2, first]


Repack = Callable[..., bytes]


@pytest.fixture
def repack(tmp_path: Path) -> Repack:
    """Pack a folder; return all bytes of the result."""
    count = 0

    def run(folder: Path, **options: Any) -> bytes:
        nonlocal count
        count += 1
        out = tmp_path / f"out{count}"
        pack_folder(folder, out, **options)
        files = sorted(out.iterdir()) if out.is_dir() else [out]
        return b"".join(file.read_bytes() for file in files)

    return run


def copy_backwards(folder: Path, copy: Path) -> Path:
    """Copy a tree: its entries are made in another order, with other times and permissions."""
    copy.mkdir(parents=True)
    for entry in sorted(folder.iterdir(), reverse=True):
        if entry.is_symlink():
            (copy / entry.name).symlink_to(os.readlink(entry))
        elif entry.is_dir():
            copy_backwards(entry, copy / entry.name)
        else:
            (copy / entry.name).write_bytes(entry.read_bytes())
            runnable = entry.stat().st_mode & 0o111
            (copy / entry.name).chmod(0o700 if runnable else 0o600)
            os.utime(copy / entry.name, ns=(0, 12345))
    copy.chmod(0o700)
    return copy


@pytest.mark.parametrize(
    "options",
    [{}, {"shards": 2}, {"shards": 3, "dedup": True}, {"symlinks": "keep"}, {"order": "size"}],
)
def test_reproducible(
    folder: Path, tmp_path: Path, repack: Repack, options: dict[str, Any]
) -> None:
    (folder / "run").write_bytes(b"#!")
    (folder / "run").chmod(0o755)
    (folder / "link").symlink_to("a/x.png")
    copy = copy_backwards(folder, tmp_path / "elsewhere" / "copy")
    first = repack(folder, reproducible=True, jobs=1, **options)
    assert repack(folder, reproducible=True, jobs=4, **options) == first
    assert repack(copy, reproducible=True, **options) == first
    assert repack(copy, **options) != repack(folder, **options)


def test_modes_and_times_of_a_reproducible_pack(
    folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "b").chmod(0o750)
    pack_folder(folder, out, reproducible=True)
    entries = shown(out)
    assert {entry.mtime_ns for entry in entries.values()} == {0}
    assert stat.S_IMODE(entries["b"].mode) == stat.S_IMODE(entries["a"].mode) == 0o755
    assert stat.S_IMODE(entries["none"].mode) == 0o644
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    pack_folder(folder, out, force=True)
    assert {entry.mtime_ns for entry in shown(out).values()} == {1_700_000_000 * 10**9}


@pytest.mark.parametrize("text", ["yesterday", "-1", "1.5", "9" * 20, "٣"])
def test_an_invalid_source_date_epoch(
    folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    with pytest.raises(PackError, match=r"^SOURCE_DATE_EPOCH: .* is not a number of seconds"):
        pack_folder(folder, out)
