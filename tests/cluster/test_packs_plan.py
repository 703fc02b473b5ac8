"""Packs that are packed by a plan: reordered, merged, filtered; never with a wrong byte."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ffrfs import pack_folder, repack
from ffrfs._native import Pack
from ffrfs.cluster import Plan, commit, planning, run
from ffrfs.errors import FfrfsError, PackError, UnfinishedError
from ffrfs.packing.sources.archive import ArchiveSource
from tests.cluster.trees import (
    add_links,
    assert_nothing_else,
    finish,
    make_tree,
    planned,
    shards_of,
)
from tests.ffrecord_file import flip_byte, record_extents
from tests.folder.archives import write_tree
from tests.folder.folder_model import make_folder, shown


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return add_links(make_tree(tmp_path / "tree"))


@pytest.fixture
def pack(tree: Path, tmp_path: Path) -> Path:
    pack_folder(tree, tmp_path / "old.ffr", symlinks="keep")
    return tmp_path / "old.ffr"


def repacked(source: Path | list[Path], target: Path, **options: Any) -> Plan:
    """Pack `source` by a plan, which is left open."""
    plan = planned(source, target, target.parent / "plan", **options)
    finish(plan)
    assert_nothing_else(target)
    return plan


def order_of(target: Path) -> list[str]:
    """Return the paths of the files, in the order of their records."""
    return [path for shard in sorted(target.glob("*.ffr")) for path in paths_of(shard)]


def paths_of(pack: Path) -> list[str]:
    opened = Pack(os.fsencode(pack))
    opened.open_tree()
    return [
        os.fsdecode(opened.path_of(number) or b"?") for number in range(opened.record_count - 1)
    ]


@pytest.mark.parametrize("options", [{"shards": 1}, {"shards": 4}, {"shard_size": 60_000}])
@pytest.mark.parametrize("order", [None, "size", "path"])
def test_the_same_tree_in_another_order(
    pack: Path, target: Path, options: dict[str, int], order: str | None
) -> None:
    with repacked(pack, target, order=order, **options) as plan:
        assert plan.file_count == len(order_of(target))
    assert shown(target) == shown(pack)
    contents = shown(pack)
    found = order_of(target)
    if order == "size":
        sizes = [len(contents[path].content or b"") for path in found]
        assert sizes == sorted(sizes)
    else:
        assert len(found) == len(set(found))


def test_an_order_from_a_file(pack: Path, target: Path) -> None:
    files = [path for path, entry in shown(pack).items() if entry.mode & 0o170000 == 0o100000]
    listed = sorted(files, reverse=True)
    (target.parent / "order").write_text("\n".join(listed) + "\n")
    repacked(pack, target, order=str(target.parent / "order")).close()
    # The order holds within a shard, too.
    assert order_of(target) == listed
    assert shown(target) == shown(pack)


@pytest.mark.parametrize("symlinks", ["inside", "follow", "keep", "skip"])
def test_links(tree: Path, target: Path, symlinks: Any) -> None:
    """Links are treated as by repack()."""
    (tree / "away").unlink()
    (tree / "d0" / "bytes").unlink()
    pack_folder(tree, target.parent / "old.ffr", symlinks="keep")
    repack(target.parent / "old.ffr", target.parent / "one.ffr", symlinks=symlinks)
    repacked(target.parent / "old.ffr", target, symlinks=symlinks).close()
    assert shown(target) == shown(target.parent / "one.ffr")


@pytest.mark.parametrize(
    "patterns",
    [
        {"include": ["d0"]},
        {"include": ["*.bin"]},
        {"exclude": ["d1/*", "00*"]},
        {"exclude": ["nothing"]},
        {"include": ["nothing"]},
        {"include": ["e0"], "exclude": ["003*"]},
    ],
)
def test_patterns(pack: Path, target: Path, patterns: dict[str, list[str]]) -> None:
    repack(pack, target.parent / "one.ffr", **patterns)  # type: ignore[arg-type]
    repacked(pack, target, **patterns).close()
    assert shown(target) == shown(target.parent / "one.ffr")


@pytest.mark.parametrize("order", [None, "size", "path"])
@pytest.mark.parametrize("shards", [1, 3, 40])
def test_files_that_share_a_record(tmp_path: Path, order: str | None, shards: int) -> None:
    """They still share it if they are in the same shard."""
    content = {f"d{n}": {f"{m}": bytes([m]) * 2000 for m in range(8)} for n in range(5)}
    pack_folder(make_folder(tmp_path / "tree", content), tmp_path / "old.ffr", dedup=True)
    with repacked(tmp_path / "old.ffr", tmp_path / "set", order=order, shards=shards) as plan:
        assert plan.file_count == 40
    assert shown(tmp_path / "set") == shown(tmp_path / "old.ffr")
    if shards < 8:
        size = sum(map(len, shards_of(tmp_path / "set").values()))
        assert size < 8 * 2000 + shards * 30_000
        records = sum(len(record_extents(shard)) - 1 for shard in (tmp_path / "set").glob("*.ffr"))
        assert records <= 8 + (shards - 1)


def test_an_empty_pack_and_one_of_empty_directories(tmp_path: Path) -> None:
    for name, content in (("none", {}), ("some", {"a": {"b": {}}, "c": {}})):
        pack_folder(make_folder(tmp_path / name, content), tmp_path / f"{name}.ffr")
        repacked(tmp_path / f"{name}.ffr", tmp_path / f"{name}.set").close()
        assert shown(tmp_path / f"{name}.set") == shown(tmp_path / f"{name}.ffr")


def damage(pack: Path, path: str) -> None:
    """Flip a byte of the file `path` in the pack."""
    offset, size = record_extents(pack)[paths_of(pack).index(path)]
    assert size > 0
    flip_byte(pack, offset + size // 2)


def test_a_damaged_source_is_named(pack: Path, target: Path) -> None:
    damage(pack, "d1/e1/002 é.bin")
    with planned(pack, target, target.parent / "plan", shards=4) as plan:
        with pytest.raises(UnfinishedError) as caught:
            finish(plan)
        assert "d1/e1/002 é.bin" in str(caught.value)
        assert str(pack) in str(caught.value)
        assert "\n" not in str(caught.value)
        assert not (target / ".ffrfs-manifest.jsonl").exists()
        assert all(path.suffix == ".ffr" for path in target.iterdir())
        with pytest.raises(PackError, match="shards are missing"):
            commit(plan)


@pytest.mark.parametrize("bad", ["d1/e1/002 é.bin", "top"])
@pytest.mark.parametrize("shards", [2, 38])
def test_a_damaged_file_is_left_out(pack: Path, target: Path, bad: str, shards: int) -> None:
    expected = shown(pack)
    damage(pack, bad)
    with planned(pack, target, target.parent / "plan", shards=shards) as plan:
        summary, missing = finish(plan, on_error="skip")
        assert [file.path for file in missing] == [bad]
        assert "checksum" in missing[0].reason
        assert (summary.missing_count, summary.file_count) == (1, plan.file_count - 1)
        assert commit(plan) == summary
    del expected[bad]
    assert shown(target) == expected


def test_a_damaged_file_of_packs_that_overlap_is_left_out(
    pack: Path, target: Path, tmp_path: Path
) -> None:
    pack_folder(make_folder(tmp_path / "more", {"top": b"other", "new": b"1"}), tmp_path / "b.ffr")
    damage(pack, "top")
    path, packs = tmp_path / "plan", [pack, tmp_path / "b.ffr"]
    with planned(packs, target, path, on_conflict="first") as plan:
        _, missing = finish(plan, on_error="skip")
        assert [file.path for file in missing] == ["top"]


def test_a_source_that_is_no_longer_a_pack(pack: Path, target: Path) -> None:
    with planned(pack, target, target.parent / "plan") as plan:
        pack.write_bytes(b"hello" * 1000)
        with pytest.raises(FfrfsError):
            run(plan, 0)
        pack.unlink()
        with pytest.raises(FileNotFoundError):
            run(plan, 0)
    assert not target.exists() or list(target.iterdir()) == []


@pytest.mark.promise("S67")
def test_a_source_that_was_replaced_by_another_pack(pack: Path, tree: Path, target: Path) -> None:
    """Its paths and sizes are as they were listed; its bytes are others."""
    with planned(pack, target, target.parent / "plan", shards=2) as plan:
        run(plan, 0)
        before = (tree / "top").read_bytes()
        (tree / "top").write_bytes(bytes(len(before)))
        pack_folder(tree, pack, symlinks="keep", force=True)
        with pytest.raises(
            PackError, match=r"old\.ffr: was changed after it was listed; plan anew"
        ):
            run(plan, 1)
        assert [path.name for path in target.glob("*.ffr")] == ["part_00000.ffr"]


@pytest.mark.promise("S67")
def test_an_archive_that_changes_while_a_shard_is_made(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change is noticed at any shard, not only at the last one."""
    archive = write_tree(tmp_path / "x.tar", {"a": b"a", "b": b"b"})
    append = ArchiveSource.append

    def changing(self: ArchiveSource, *arguments: Any) -> None:
        os.utime(archive, (5, 5))
        append(self, *arguments)

    with planned(archive, target, tmp_path / "plan", shards=2) as plan:
        monkeypatch.setattr(ArchiveSource, "append", changing)
        with pytest.raises(PackError, match=r"x\.tar: changed while it was packed; pack again"):
            run(plan, 0)


@pytest.mark.promise("S67")
def test_an_archive_that_changes_while_it_is_listed(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = write_tree(tmp_path / "x.tar", {"a": b"a", "b": b"b"})
    listed = planning._listed

    def changing(*arguments: Any) -> object:
        found = listed(*arguments)
        write_tree(archive, {"b": b"other", "c": b"c"})
        return found

    monkeypatch.setattr(planning, "_listed", changing)
    with (
        planned(archive, target, tmp_path / "plan", shards=2) as plan,
        pytest.raises(PackError, match=r"x\.tar: was changed after it was listed; plan anew"),
    ):
        run(plan, 0)
