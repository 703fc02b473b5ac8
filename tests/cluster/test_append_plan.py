"""Shards are added to a set by a plan: the set is whole before and afterwards."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs import pack_folder
from ffrfs._native import Pack
from ffrfs.cluster import Plan, commit, run
from ffrfs.cluster.manifest import progress_of
from ffrfs.errors import PackError
from ffrfs.packing.places import MANIFEST_NAME
from tests.cluster.trees import (
    EndedError,
    Steps,
    assert_nothing_else,
    finish,
    kept,
    planned,
    shards_of,
)
from tests.ffrecord_file import Tree
from tests.folder.folder_model import make_folder, shown

OLD: Tree = {"a": {"one": b"1" * 3000, "two": b"2" * 3000}, "b": b"b", "empty": {}}
NEW: Tree = {"a": {"three": b"3" * 3000}, "c": {"four": b"4" * 3000, "none": {}}, "d": b"d"}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    pack_folder(make_folder(tmp_path / "old", OLD), tmp_path / "set", shards=2)
    return tmp_path / "set"


@pytest.fixture
def more(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "more", NEW)


@pytest.fixture
def plan(target: Path, more: Path) -> Iterator[Plan]:
    with planned(more, target, target.parent / "plan", append=True, shards=2) as made:
        yield made


def test_shards_are_added(plan: Plan, target: Path, more: Path) -> None:
    before, old = shards_of(target), shown(target)
    assert (plan.header.first_number, len(plan)) == (2, 2)
    run(plan, 1)
    assert shards_of(target) == before
    assert shown(target) == old  # still complete
    with pytest.raises(PackError, match="1 of 2 shards are missing: number 2"):
        commit(plan)
    assert shown(target) == old
    run(plan, 0)
    assert shown(target) == old
    summary = commit(plan)
    found = shards_of(target)
    assert sorted(found) == [f"part_0000{number}.ffr" for number in range(4)]
    assert before.items() <= found.items()
    assert_nothing_else(target)
    expected = {**old, **{path: e for path, e in shown_of(more).items() if path not in old}}
    assert {path: entry.content for path, entry in shown(target).items()} == {
        path: entry.content for path, entry in expected.items()
    }
    shards = [Pack(os.fsencode(path)).shard for path in sorted(target.glob("*.ffr"))]
    assert [shard[1:] for shard in shards if shard] == [(0, 2), (1, 2), (2, 4), (3, 4)]
    assert len({shard[0] for shard in shards if shard}) == 1
    assert (summary.shard_count, summary.file_count) == (4, 6)


def shown_of(folder: Path) -> dict:
    pack_folder(folder, folder.parent / "x.ffr")
    return shown(folder.parent / "x.ffr")


def test_the_manifest_lists_old_and_new_shards(plan: Plan, target: Path) -> None:
    finish(plan)
    first, *rows = map(json.loads, (target / ".ffrfs-manifest.jsonl").read_text().splitlines())
    assert (first["shards"], first["files"], first["bytes"]) == (4, 6, 12_002)
    assert [row["number"] for row in rows] == [0, 1, 2, 3]
    for row in rows:
        data = (target / row["name"]).read_bytes()
        assert row["size"] == len(data)
        assert row["checksum"] == f"{int.from_bytes(data[:4], 'little'):08x}"


def test_files_that_share_a_record_are_counted(tmp_path: Path, more: Path) -> None:
    """Also in shards that are in no manifest; links and directories do not count as files."""
    old = make_folder(tmp_path / "old", {"x": {"1": b"same", "2": b"same"}, "y": b"else", "e": {}})
    (old / "link").symlink_to("y")
    pack_folder(old, tmp_path / "set", shards=1, dedup=True, symlinks="keep")
    with planned(more, tmp_path / "set", tmp_path / "plan", shards=1, append=True) as plan:
        finish(plan)
    _, row, _ = map(json.loads, (tmp_path / "set" / MANIFEST_NAME).read_text().splitlines())
    assert (row["number"], row["file_count"], row["byte_count"]) == (0, 3, 12)


def test_rows_of_the_old_manifest_are_kept(tmp_path: Path, more: Path) -> None:
    """It keeps its rows, also about files that were left out."""
    tree = make_folder(tmp_path / "tree", {f"{number}": bytes(2000) for number in range(6)})
    with planned(tree, tmp_path / "set", tmp_path / "plan", shards=2) as plan:
        (tree / "4").unlink()
        finish(plan, on_error="skip")
    before = (tmp_path / "set" / ".ffrfs-manifest.jsonl").read_text().splitlines()
    with planned(more, tmp_path / "set", tmp_path / "plan", shards=1, append=True) as plan:
        finish(plan)
    after = (tmp_path / "set" / ".ffrfs-manifest.jsonl").read_text().splitlines()
    assert after[1:3] == before[1:3]
    assert json.loads(after[0])["missing"] == 1


@pytest.mark.parametrize("value", [None, "5", [], 0.5])
@pytest.mark.parametrize("name", ["file_count", "byte_count"])
def test_a_row_of_a_damaged_manifest_is_rebuilt(
    target: Path, tmp_path: Path, name: str, value: object
) -> None:
    for number in range(2):
        more = make_folder(tmp_path / f"more{number}", {f"x{number}": b"x"})
        with planned(more, target, tmp_path / "plan", shards=1, append=True) as plan:
            finish(plan)
        whole, *rows = map(json.loads, (target / MANIFEST_NAME).read_text().splitlines())
        assert (whole["files"], whole["bytes"]) == (number + 4, number + 6002)
        rows[0][name] = value
        lines = "\n".join(map(json.dumps, [whole, *rows]))
        (target / MANIFEST_NAME).write_text(lines)


@pytest.mark.parametrize(
    ("new", "path"),
    [
        ({"a": {"one": b"again"}}, "a/one"),
        ({"b": b""}, "b"),
        ({"b": {"x": b""}}, "b"),
        ({"a": b""}, "a"),
        ({"x": b"", "empty": b""}, "empty"),
    ],
)
def test_paths_already_in_the_set_are_refused(
    tmp_path: Path, target: Path, new: Tree, path: str
) -> None:
    make_folder(tmp_path / "new", new)
    before = shards_of(target)
    with pytest.raises(PackError, match=f"part_0000..ffr has '{path}' already; exclude it"):
        planned(tmp_path / "new", target, tmp_path / "plan", append=True)
    assert shards_of(target) == before
    assert sorted(os.listdir(target)) == sorted(before)
    assert not (tmp_path / "plan").exists()


def test_a_link_whose_path_is_already_in_the_set(tmp_path: Path, target: Path) -> None:
    make_folder(tmp_path / "new", {"x": b"", "a": {}})
    (tmp_path / "new" / "a" / "one").symlink_to("x")
    with pytest.raises(PackError, match="has 'a/one' already"):
        planned(tmp_path / "new", target, tmp_path / "plan", append=True, symlinks="keep")


def test_targets_that_cannot_be_added_to(tmp_path: Path, more: Path, target: Path) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(PackError, match="holds no packs to add to"):
        planned(more, tmp_path / "nothing", tmp_path / "plan", append=True)
    pack_folder(more, tmp_path / "nothing" / "x.ffr")
    with pytest.raises(PackError, match="is not a shard of a pack set"):
        planned(more, tmp_path / "nothing", tmp_path / "plan", append=True)
    (target / "part_00000.ffr").unlink()
    with pytest.raises(PackError, match="shard 0 of the set is missing"):
        planned(more, target, tmp_path / "plan", append=True)
    with pytest.raises((OSError, PackError), match="missing"):
        planned(more, tmp_path / "missing", tmp_path / "plan", append=True)


def test_two_plans_for_one_set(plan: Plan, target: Path, tmp_path: Path) -> None:
    """The later plan finds the shards of the other, and does not take them for its own."""
    make_folder(tmp_path / "z", {"z": b"", "zz": b""})
    with planned(tmp_path / "z", target, tmp_path / "plan2", append=True, shards=2) as other:
        finish(other)
    before = shards_of(target)
    with pytest.raises((PackError, OSError)):
        finish(plan)
    assert shards_of(target) == before


def test_shards_of_an_abandoned_plan_are_not_used(plan: Plan, target: Path, tmp_path: Path) -> None:
    """Another plan has shards of the same numbers, and does not take these for its own."""
    run(plan, 0)
    run(plan, 1)
    make_folder(tmp_path / "z", {"z1": b"1", "z2": b"2", "z3": b"3"})
    with planned(tmp_path / "z", target, tmp_path / "plan2", append=True, shards=2) as other:
        assert other.place != plan.place
        finish(other)
    assert {"z1", "z2", "z3"} < set(shown(target))
    assert "a/three" not in shown(target)


@pytest.mark.parametrize("step", range(8))
def test_a_command_ended_while_moving_shards_is_resumed(
    target: Path, more: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The command ends at any of its last steps; the same call goes on from there."""
    steps = Steps(step + 1)
    is_ended = False

    with monkeypatch.context() as patch:
        for name in ("rename", "unlink", "rmdir"):
            patch.setattr(os, name, steps.counted(getattr(os, name)))
        try:
            with kept(more, target, 3, append=True) as plan:
                finish(plan)
        except EndedError:
            is_ended = True
    if is_ended:
        with kept(more, target, 3, append=True) as plan:
            finish(plan)
    assert_nothing_else(target)
    assert len(shards_of(target)) == 5
    assert len(shown(target)) == 10


def test_partial_files_beside_the_shards_are_not_moved(plan: Plan, target: Path) -> None:
    """A killed task leaves such a file where the file system has no O_TMPFILE."""
    run(plan, 0)
    (Path(plan.place) / ".part_00003.ffr.0123456789abcdef.partial").write_bytes(b"x")
    finish(plan)
    assert not [name for name in os.listdir(target) if name.endswith(".partial")]
    assert_nothing_else(target)


@pytest.mark.promise("S70")
def test_a_link_in_place_of_the_manifest_is_replaced(
    plan: Plan, target: Path, tmp_path: Path
) -> None:
    (tmp_path / "diary").write_text("today")
    (target / MANIFEST_NAME).symlink_to(tmp_path / "diary")
    finish(plan)
    assert (tmp_path / "diary").read_text() == "today"
    assert not (target / MANIFEST_NAME).is_symlink()
    assert_nothing_else(target)


@pytest.mark.promise("S70")
def test_a_foreign_file_named_like_the_manifest_is_kept(plan: Plan, target: Path) -> None:
    (target / MANIFEST_NAME).write_text("a diary")
    with pytest.raises(PackError, match="is not a manifest that ffrfs has written"):
        finish(plan)
    assert (target / MANIFEST_NAME).read_text() == "a diary"


def test_a_link_in_place_of_the_staging_directory_is_refused(
    plan: Plan, target: Path, tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    Path(plan.place).symlink_to(tmp_path / "there")
    with pytest.raises(PackError, match="is not what ffrfs has made there"):
        run(plan, 0)
    assert os.listdir(tmp_path / "there") == []
    Path(plan.place).unlink()
    for number in range(2):
        run(plan, number)
    Path(plan.place).rename(tmp_path / "moved")
    Path(plan.place).symlink_to(tmp_path / "moved")
    with pytest.raises(PackError, match="is not what ffrfs has made there"):
        commit(plan)
    assert len(os.listdir(tmp_path / "moved")) == 2


@pytest.mark.parametrize(
    "line",
    [b"[" * 100_000, b"[]", b'{"missing": [5]}', b"\xff", b"null"],
    ids=["deep", "list", "missing", "no text", "null"],
)
def test_a_hostile_manifest_is_ignored(plan: Plan, target: Path, line: bytes) -> None:
    first = b'{"format": "ffrfs-manifest", "shards": 9, "files": 1, "bytes": 1, "missing": 0}'
    (target / MANIFEST_NAME).write_bytes(first + b"\n" + line)
    finish(plan)
    assert_nothing_else(target)


def test_a_manifest_that_is_a_fifo_is_refused_at_once(plan: Plan, target: Path) -> None:
    os.mkfifo(target / MANIFEST_NAME)
    assert not progress_of(plan).is_complete
    with pytest.raises(PackError, match="not a regular file"):
        finish(plan)
