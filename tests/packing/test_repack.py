"""Packs are packed again: filtered, reordered, merged, and never with a wrong byte."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ffrfs import pack_folder
from ffrfs.errors import ChecksumError, FormatError, PackError, PackWarning
from ffrfs.packing.change import add_files, remove_paths
from ffrfs.packing.pack import repack
from ffrfs.packing.sources import pack_source
from tests.ffrecord_file import Tree, flip_byte, record_extents, write_records
from tests.folder.folder_model import (
    assert_packed,
    make_folder,
    names,
    packed,
    read_as_reference,
    read_records,
    shown,
    shown_tree,
    trees,
    walk,
)

TREE: Tree = {
    "a": {"large": bytes(range(256)) * 8192, "x.png": b"x", "empty": {}},
    "b.txt": b"b" * 4097,
    "c": {},
    "nothing": b"",
    "é": b"e",
}


@pytest.fixture
def old(folder: Path) -> Path:
    pack_folder(folder, folder.parent / "old.ffr")
    return folder.parent / "old.ffr"


def damage(pack: Path, record: int) -> None:
    offset, size = record_extents(pack)[record]
    flip_byte(pack, offset + size // 2)


def test_repacking_gives_the_same_bytes(old: Path, out: Path) -> None:
    summary = repack(old, out)
    assert out.read_bytes() == old.read_bytes()
    assert (summary.file_count, summary.folder_count, summary.skipped) == (5, 3, [])
    assert_packed(out, TREE)


def test_a_pack_that_is_packed_in_place_stays_private(old: Path) -> None:
    before = shown(old)
    old.chmod(0o600)
    repack(old, old, order="size")
    assert (old.stat().st_mode & 0o777, shown(old)) == (0o600, before)
    assert sorted(os.listdir(old.parent)) == ["folder", "old.ffr"]


@pytest.mark.long
@settings(max_examples=50)
@given(tree=trees)
def test_any_tree(tmp_path_factory: pytest.TempPathFactory, tree: Tree) -> None:
    place = tmp_path_factory.mktemp("any")
    pack_folder(make_folder(place / "folder", tree), place / "old.ffr")
    for options in ({}, {"dedup": True}, {"order": "size"}):
        repack(place / "old.ffr", place / "x.ffr", **options, force=True)
        assert shown_tree(place / "x.ffr") == read_as_reference(place / "x.ffr") == tree
        repack(place / "x.ffr", place / "x.ffr", order="path", force=True)
        assert shown(place / "x.ffr") == shown(place / "old.ffr")


def test_the_golden_pack(golden: Path, out: Path) -> None:
    repack(golden / "packed.ffr", out)
    theirs, ours = read_records(golden / "packed.ffr"), read_records(out)
    assert ours[:-1] == theirs[:-1]
    assert ours[-1].startswith(theirs[-1])
    # Permissions and times stay unknown.
    before = shown(golden / "packed.ffr")
    for path, entry in shown(out).items():
        assert (entry.mode, entry.content) == (before[path].mode, before[path].content)
    manifest = json.loads((golden / "packed.manifest.json").read_text())
    assert shown(out).keys() == manifest.keys()


def test_a_pack_without_a_mapped_index(tmp_path: Path, out: Path) -> None:
    (tmp_path / "old.ffr").write_bytes(packed(TREE))
    repack(tmp_path / "old.ffr", out)
    assert_packed(out, TREE)


def test_permissions_times_and_links(folder: Path, out: Path) -> None:
    (folder / "a" / "link").symlink_to("../b.txt")
    (folder / "away").symlink_to("/nowhere")
    os.utime(folder / "a" / "link", ns=(5, 5), follow_symlinks=False)
    (folder / "b.txt").chmod(0o751)
    os.utime(folder / "b.txt", ns=(7, 1_234_567_890_123_456_789))
    (folder / "c").chmod(0o700)
    pack_folder(folder, out.parent.parent / "old.ffr", symlinks="keep")
    summary = repack(out.parent.parent / "old.ffr", out)
    entries = shown(out)
    assert entries == shown(out.parent.parent / "old.ffr")
    assert summary.link_count == 2
    assert entries["away"].content == b"/nowhere"
    assert entries["a/link"].mtime_ns == 5
    assert entries["b.txt"].mtime_ns == 1_234_567_890_123_456_789
    assert stat.S_IMODE(entries["c"].mode) == 0o700


LINKED: Tree = {"d": {"one": b"1", "e": {"two": b"22"}}, "s": {}}


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    folder = make_folder(tmp_path / "linked", LINKED)
    (folder / "s" / "up").symlink_to("../d/one")
    (folder / "s" / "folder").symlink_to("../d/e")
    pack_folder(folder, tmp_path / "linked.ffr", symlinks="keep")
    return tmp_path / "linked.ffr"


def test_links_are_followed_or_left_out_as_requested(linked: Path, out: Path) -> None:
    for symlinks in ("inside", "follow"):
        summary = repack(linked, out, symlinks=symlinks, force=True)
        assert shown_tree(out) == {**LINKED, "s": {"up": b"1", "folder": {"two": b"22"}}}
        assert (summary.followed_link_count, summary.link_count, summary.shared_count) == (2, 0, 2)
    summary = repack(linked, out, symlinks="skip", force=True)
    assert shown_tree(out) == LINKED
    assert summary.left_out_link_count == 2
    repack(linked, out, symlinks="follow", include=["s"], force=True)
    assert shown_tree(out) == {"s": {"up": b"1", "folder": {"two": b"22"}}}


def test_links_that_cannot_be_followed(folder: Path, out: Path) -> None:
    old = out.parent.parent / "old.ffr"
    for target, reason in (("../..", "is a symbolic link to"), ("..", "makes a loop")):
        (folder / "a" / "link").symlink_to(target)
        pack_folder(folder, old, symlinks="keep", force=True)
        (folder / "a" / "link").unlink()
        with pytest.raises(PackError, match=f"^{old}: 'a/link': .*{reason}"):
            repack(old, out, symlinks="follow")
        assert os.listdir(out.parent) == []


def test_too_many_paths_behind_links(
    linked: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_source, "SHOWN_THROUGH_LINKS_LIMIT", 2)
    with pytest.raises(PackError, match="is one of over 2 behind links"):
        repack(linked, out, symlinks="follow")


patterns = st.lists(
    st.one_of(names, st.builds("{}/{}".format, names, names), st.sampled_from(["?", "*a*", "a/*"])),
    max_size=3,
)


def succeeds(pack: Callable[..., object], *arguments: object, **options: object) -> bool:
    try:
        pack(*arguments, **options)
    except PackError:  # no file has the pattern or the path
        return False
    return True


@pytest.mark.long
@settings(max_examples=100)
@given(tree=trees, include=st.none() | patterns, exclude=patterns, data=st.data())
def test_any_selection_equals_that_of_a_directory(
    tmp_path_factory: pytest.TempPathFactory,
    *,
    tree: Tree,
    include: list[str] | None,
    exclude: list[str],
    data: st.DataObject,
) -> None:
    place = tmp_path_factory.mktemp("any")
    folder = make_folder(place / "src", tree)
    pack_folder(folder, place / "all.ffr")
    paths = [path for path, _ in walk(tree)]
    listed = data.draw(st.none() | st.lists(st.sampled_from(paths))) if paths else None
    options = {"include": include, "exclude": exclude, "files": listed}
    is_packed = succeeds(pack_folder, folder, place / "1.ffr", **options)
    assert succeeds(repack, place / "all.ffr", place / "2.ffr", **options) is is_packed
    if is_packed:
        assert (place / "2.ffr").read_bytes() == (place / "1.ffr").read_bytes()


def test_files_keep_the_order_of_the_pack(folder: Path, old: Path, out: Path) -> None:
    pack_folder(folder, old, force=True, order="size")
    repack(old, out, force=True)
    assert out.read_bytes() == old.read_bytes()
    repack(old, out, exclude=["x.png"], force=True)
    assert list(map(len, read_records(out)[:-1])) == [0, 1, 4097, 256 * 8192]
    repack(old, out, order="path", force=True)
    assert_packed(out, TREE)


def test_equal_files_stored_once_stay_stored_once(tmp_path: Path, out: Path) -> None:
    folder = make_folder(tmp_path / "folder", {"a": b"xx", "b": b"yy", "c": b"xx", "d": b"yy"})
    pack_folder(folder, tmp_path / "once.ffr", dedup=True)
    pack_folder(folder, tmp_path / "twice.ffr")
    for name, options, shared in (
        ("once", {}, 2),
        ("once", {"dedup": True}, 2),
        ("twice", {"dedup": True}, 2),
        ("twice", {}, 0),
    ):
        summary = repack(tmp_path / f"{name}.ffr", out, **options, force=True)
        assert summary.shared_count == shared
        assert shown(out) == shown(tmp_path / "once.ffr")
    repack(tmp_path / "once.ffr", out, force=True)
    assert out.read_bytes() == (tmp_path / "once.ffr").read_bytes()


def test_shared_files_are_deduplicated_further(tmp_path: Path, out: Path) -> None:
    """Files that share a record already may equal other files."""
    one = make_folder(tmp_path / "one", {"b": b"xx", "c": b"xx"})
    two = make_folder(tmp_path / "two", {"a": b"xx", "z": b"xx", "y": b"zz"})
    for folder in (one, two):
        pack_folder(folder, folder.with_suffix(".ffr"), dedup=True)
    summary = repack([one.with_suffix(".ffr"), two.with_suffix(".ffr")], out, dedup=True)
    assert (summary.file_count, summary.shared_count) == (5, 3)
    assert read_records(out)[:-1] == [b"xx", b"zz"]
    assert shown_tree(out) == {"a": b"xx", "b": b"xx", "c": b"xx", "y": b"zz", "z": b"xx"}


def test_large_files(tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_source, "_BATCH_SIZE", 5000)
    monkeypatch.setattr(pack_source, "_BATCH_COUNT", 3)
    large = os.urandom(9 << 20)
    tree: Tree = {"large": large, "same": large, **{str(n): b"n" * n * 100 for n in range(60)}}
    pack_folder(make_folder(tmp_path / "folder", tree), tmp_path / "old.ffr")
    seen: list[tuple[int, int, int, int]] = []
    repack(tmp_path / "old.ffr", out, progress=lambda *state: seen.append(state), force=True)
    assert out.read_bytes() == (tmp_path / "old.ffr").read_bytes()
    assert seen == sorted(seen)
    assert seen[-1] == (62, 62, seen[-1][3], seen[-1][3])
    assert repack(tmp_path / "old.ffr", out, dedup=True, force=True).shared_count == 1
    assert shown_tree(out) == tree


def test_into_a_set_and_back(old: Path, out: Path) -> None:
    shards = out.parent / "set"
    assert repack(old, shards, shards=3, force=True).shard_count == 3
    assert shown(shards) == shown(old)
    repack(shards, out, force=True)
    assert out.read_bytes() == old.read_bytes()
    repack(shards / "part_00000.ffr", out, force=True)  # one shard alone
    assert shown(out) == shown(shards / "part_00000.ffr")
    (shards / "part_00001.ffr").unlink()
    with pytest.raises(FormatError, match="missing"):
        repack(shards, out, force=True)
    with pytest.warns(PackWarning, match="missing"):
        repack(shards, out, allow_missing=True, force=True)
    assert shown(out).items() <= shown(old).items()


def test_a_pack_is_added_to_a_set(old: Path, tmp_path: Path) -> None:
    more = make_folder(tmp_path / "more", {"a": {"new": b"n"}})
    pack_folder(more, tmp_path / "more.ffr")
    repack(old, tmp_path / "set", shards=2)
    repack(tmp_path / "more.ffr", tmp_path / "set", append=True)
    assert shown_tree(tmp_path / "set")["a"] == {**TREE["a"], "new": b"n"}  # type: ignore[dict-item]
    with pytest.raises(PackError, match=f"^{tmp_path}/more.ffr: 'a/new': .* has 'a/new' already"):
        repack(tmp_path / "more.ffr", tmp_path / "set", append=True)


def test_the_set_that_is_read_is_not_written_to(old: Path, tmp_path: Path) -> None:
    repack(old, tmp_path / "set", shards=2)
    names = os.listdir(tmp_path / "set")
    for options in ({}, {"append": True}):
        target = tmp_path / "set" if options else tmp_path / "set" / "x.ffr"
        with pytest.raises(PackError, match="the new pack would be in this set"):
            repack(tmp_path / "set", target, **options)
    assert os.listdir(tmp_path / "set") == names


def test_merging(old: Path, tmp_path: Path, out: Path) -> None:
    other = make_folder(tmp_path / "other", {"a": {"y": b"y"}, "b.txt": b"other"})
    pack_folder(other, tmp_path / "other.ffr")
    packs = [old, tmp_path / "other.ffr"]
    with pytest.raises(FormatError, match=r'both have "b.txt"'):
        repack(packs, out)
    assert os.listdir(out.parent) == []
    for on_conflict, content in (("first", b"b" * 4097), ("last", b"other")):
        repack(packs, out, on_conflict=on_conflict, force=True)
        merged = shown_tree(out)
        assert merged == {**TREE, "a": {**TREE["a"], "y": b"y"}, "b.txt": content}  # type: ignore[dict-item]
        assert shown(out) == shown(packs, on_conflict=on_conflict)


def test_several_packs_do_not_replace_an_existing_pack(old: Path, tmp_path: Path) -> None:
    """`ffrfs pack *.ffr` gives such arguments."""
    for name in ("1", "2"):
        pack_folder(make_folder(tmp_path / name, {name: b"x"}), tmp_path / f"{name}.ffr")
    before = old.read_bytes()
    with pytest.raises(PackError, match=rf"^{old}: exists \(a pack of 5 records\)"):
        repack([tmp_path / "1.ffr", tmp_path / "2.ffr"], old)
    with pytest.raises(PackError, match="exists"):  # like `*.ffr` in a directory with two packs
        repack([tmp_path / "1.ffr"], old)
    assert old.read_bytes() == before
    repack([tmp_path / "1.ffr", tmp_path / "2.ffr"], tmp_path / "1.ffr", force=True)
    assert shown_tree(tmp_path / "1.ffr") == {"1": b"x", "2": b"x"}


def test_a_pack_is_repacked_in_place(old: Path) -> None:
    repack(old, old, exclude=["large"])
    assert shown_tree(old) == {**TREE, "a": {"x.png": b"x", "empty": {}}}
    damage(old, 0)
    before = old.read_bytes()
    with pytest.raises(ChecksumError):
        repack(old, old)
    assert old.read_bytes() == before


def test_a_pack_repacked_in_place_is_locked(old: Path, folder: Path) -> None:
    (folder / "new").touch()

    def add(*_: int) -> None:
        with pytest.raises(PackError, match=r"old.ffr: another process is changing it; try again"):
            add_files(str(old), ["new"], folder=str(folder))

    repack(old, old, progress=add)
    assert shown_tree(old) == TREE


@pytest.mark.parametrize(("record", "path"), [(0, "a/large"), (2, "b.txt")])
@pytest.mark.parametrize("batch_size", [1 << 10, 8 << 20])
def test_a_damaged_file_is_named_and_nothing_is_left(
    old: Path,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    record: int,
    path: str,
    batch_size: int,
) -> None:
    monkeypatch.setattr(pack_source, "_BATCH_SIZE", batch_size)
    damage(old, record)
    for options in ({}, {"shards": 2}):
        with pytest.raises(ChecksumError, match=f"^{old}: '{path}'"):
            repack(old, out, **options)
        assert os.listdir(out.parent) == []
    repack(old, out, exclude=[path])
    assert path not in shown(out)


def test_sources_that_are_not_packs(tmp_path: Path, folder: Path, out: Path) -> None:
    write_records(tmp_path / "plain.ffr", [b"1", b"2"])
    with pytest.raises(PackError, match="is a plain FFRecord file, not a pack"):
        repack(tmp_path / "plain.ffr", out)
    (tmp_path / "noise.ffr").write_bytes(b"noise" * 100)
    with pytest.raises(FormatError):
        repack(tmp_path / "noise.ffr", out)
    with pytest.raises(FileNotFoundError):
        repack(tmp_path / "none.ffr", out)
    assert os.listdir(out.parent) == []


def test_names_that_are_not_utf8(tmp_path: Path, out: Path) -> None:
    (old := tmp_path / "old.ffr").write_bytes(packed({"a\udcff": b"x", "b": b"y"}))
    changes = (lambda: repack(old, out), lambda: remove_paths(str(old), ["b"]))
    for change in changes:
        with pytest.raises(PackError, match=r"the name is not UTF-8; remove it \(ffrfs rm\), or"):
            change()
    assert repack(old, out, skip_special=True).skipped == [f"{tmp_path}/old.ffr: 'a\\xff'"]
    assert shown_tree(out) == {"b": b"y"}
    remove_paths(str(old), ["a\udcff"])
    assert shown_tree(old) == {"b": b"y"}


def test_reproducible(old: Path, folder: Path, out: Path) -> None:
    repack(old, out, reproducible=True, force=True)
    first = out.read_bytes()
    os.utime(folder / "b.txt", (1, 1))
    pack_folder(folder, old, force=True)
    repack(old, out, reproducible=True, force=True)
    assert out.read_bytes() == first
    pack_folder(folder, out, reproducible=True, force=True)
    assert out.read_bytes() == first


def test_an_exception_from_progress_ends_repacking(old: Path, out: Path) -> None:
    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    for options in ({}, {"shards": 2}):
        with pytest.raises(KeyboardInterrupt):
            repack(old, out, progress=interrupt, **options)
        assert os.listdir(out.parent) == []


def test_pack_folder_advises_the_right_function(old: Path, tmp_path: Path, out: Path) -> None:
    with pytest.raises(
        PackError, match=f"^{old}: is a pack already, not a directory; for packs see "
    ):
        pack_folder(old, out)
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(PackError, match="is not a directory; for archives see pack_archive"):
        pack_folder(tmp_path / "file", out)
