"""Shards are made once, kept while they are whole, and made again if they are not."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ffrfs import pack_folder
from ffrfs.cluster import Plan, commit, run
from ffrfs.cluster import pack_task as pack_task_module
from ffrfs.cluster.packing import pack_by_plan
from ffrfs.errors import PackError, UnfinishedError
from tests.cluster.trees import (
    add_links,
    assert_nothing_else,
    files_of,
    finish,
    planned,
    shards_of,
    states,
)
from tests.ffrecord_file import flip_byte
from tests.folder.folder_model import shown

MANIFEST = ".ffrfs-manifest.jsonl"


@pytest.fixture
def plan(tree: Path, target: Path) -> Iterator[Plan]:
    with planned(add_links(tree), target, target.parent / "plan", symlinks="keep") as made:
        yield made


@pytest.fixture
def expected(plan: Plan, executor: ThreadPoolExecutor, target: Path) -> dict[str, bytes]:
    """The files of the undisturbed set."""
    pack_by_plan(plan, executor)
    return files_of(target)


def manifest(target: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    first, *rows = map(json.loads, (target / MANIFEST).read_text().splitlines())
    return first, rows


def test_the_manifest(plan: Plan, expected: dict[str, bytes], target: Path) -> None:
    whole, rows = manifest(target)
    assert whole == {
        "format": "ffrfs-manifest",
        "version": 1,
        "set": plan.set_id.hex(),
        "shards": 3,
        "files": plan.file_count,
        "bytes": plan.byte_count,
        "missing": 0,
        "requests": [plan.key],
    }
    assert [row["number"] for row in rows] == [0, 1, 2]
    for row in rows:
        data = expected[row["name"]]
        assert row["size"] == len(data)
        assert row["checksum"] == f"{int.from_bytes(data[:4], 'little'):08x}"
        assert row["missing"] == []
    assert sum(row["file_count"] for row in rows) == plan.file_count
    assert sum(row["byte_count"] for row in rows) == plan.byte_count


def test_a_second_run_makes_nothing(
    plan: Plan, expected: dict[str, bytes], target: Path, executor: ThreadPoolExecutor
) -> None:
    before = states(target)
    seen: list[tuple[int, int, int, int]] = []
    summary, missing = pack_by_plan(plan, executor, progress=lambda *now: seen.append(now))
    assert states(target) == before
    assert (summary.shard_count, summary.missing_count, missing) == (3, 0, [])
    assert summary.manifest == str(target / MANIFEST)
    assert seen[-1] == (plan.file_count, plan.file_count, plan.byte_count, plan.byte_count)
    assert files_of(target) == expected


def test_commit_of_shards_that_are_missing(plan: Plan, target: Path) -> None:
    with pytest.raises(PackError, match=f"^{target}: 3 of 3 shards are missing: number 0, 1, 2; "):
        commit(plan)
    run(plan, 1)
    with pytest.raises(PackError, match=f"^{target}: 2 of 3 shards are missing: number 0, 2; "):
        commit(plan)
    with pytest.raises(PackError, match="number 0, 2"):
        commit(plan, [run(plan, 1)])
    assert os.listdir(target) == ["part_00001.ffr"]
    run(plan, 0)
    run(plan, 2)
    commit(plan)
    assert_nothing_else(target)


def test_every_flipped_byte_of_a_header(
    plan: Plan, expected: dict[str, bytes], target: Path
) -> None:
    """The shard is made again, whichever byte is flipped."""
    place = target / "part_00001.ffr"
    data = expected[place.name]
    records = int.from_bytes(data[4:12], "little")
    offsets = {0, 4, 11, 12, 12 + 4 * records - 1, 12 + 4 * records, 12 + 12 * records - 1}
    chance = random.Random(8)
    for offset in [*offsets, *(chance.randrange(12 + 12 * records) for _ in range(25))]:
        flip_byte(place, offset)
        assert run(plan, 1).made is True, offset
        assert files_of(target) == expected, offset


def test_a_shard_that_was_cut_off(plan: Plan, expected: dict[str, bytes], target: Path) -> None:
    place = target / "part_00001.ffr"
    size = len(expected[place.name])
    chance = random.Random(9)
    for end in [0, 1, 11, size // 2, size - 1, *(chance.randrange(size) for _ in range(8))]:
        os.truncate(place, end)
        assert run(plan, 1).made is True, end
        assert files_of(target) == expected, end


@pytest.mark.parametrize("kind", ["plan", "pack", "set of one process"])
def test_a_shard_of_another_plan(
    plan: Plan, tree: Path, target: Path, executor: ThreadPoolExecutor, kind: str
) -> None:
    target.mkdir()
    place = target / "part_00001.ffr"
    if kind == "pack":
        pack_folder(tree, place, symlinks="skip")
    elif kind == "plan":
        with planned(tree, target, target.parent / "other", shards=2, symlinks="skip") as other:
            run(other, 1)
    else:
        pack_folder(tree, target.parent / "one", shards=2, symlinks="skip")
        shutil.copy(target.parent / "one" / place.name, place)
    before = place.read_bytes()
    with pytest.raises(PackError, match=f"^{place}: exists already, and is not of this plan; "):
        run(plan, 1)
    with pytest.raises(PackError, match="is not of this plan"):
        commit(plan)
    with pytest.raises(UnfinishedError, match="1 of 3 shards could not be made") as caught:
        pack_by_plan(plan, executor)
    (failure,) = caught.value.failures
    assert failure.startswith(f"part_00001.ffr: {place}: exists already")
    assert place.read_bytes() == before
    assert sorted(os.listdir(target)) == [f"part_0000{number}.ffr" for number in range(3)]
    place.unlink()
    pack_by_plan(plan, executor)
    assert_nothing_else(target)


def test_two_swapped_shards_are_refused(
    plan: Plan, expected: dict[str, bytes], target: Path
) -> None:
    (target / "part_00000.ffr").rename(target / "x")
    (target / "part_00001.ffr").rename(target / "part_00000.ffr")
    (target / "x").rename(target / "part_00001.ffr")
    with pytest.raises(PackError, match="is not of this plan"):
        commit(plan)


def test_existing_shards_are_not_made_again(
    plan: Plan,
    expected: dict[str, bytes],
    target: Path,
    executor: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (target / MANIFEST).unlink()
    (target / "part_00001.ffr").unlink()
    before = states(target)
    made: list[str] = []
    make = pack_task_module._make
    monkeypatch.setattr(
        pack_task_module, "_make", lambda task, left: (made.append(task.target), make(task, left))
    )
    pack_by_plan(plan, executor)
    assert made == [str(target / "part_00001.ffr")]
    assert files_of(target) == expected
    assert before.items() <= states(target).items()


def test_too_many_failures_end_the_run(
    tree: Path, target: Path, executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device", "there")

    monkeypatch.setattr(pack_task_module, "_make", refuse)
    with (
        planned(tree, target, target.parent / "plan", shards=30) as plan,
        pytest.raises(UnfinishedError, match="10 of 30 shards could not be made") as caught,
    ):
        pack_by_plan(plan, executor)
    assert len(caught.value.failures) == 10
    assert all("No space left on device" in failure for failure in caught.value.failures)


def test_an_exception_from_progress_keeps_the_shards(
    plan: Plan, target: Path, executor: ThreadPoolExecutor
) -> None:
    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack_by_plan(plan, executor, progress=stop)
    executor.shutdown()
    assert not (target / MANIFEST).exists()
    assert 1 <= len(shards_of(target)) <= 3
    finish(plan)
    assert len(shown(target)) > 40
