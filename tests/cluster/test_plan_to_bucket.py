"""Sets that a plan makes in a bucket: resumed after a kill, whole with a manifest, nothing else."""

# ruff: noqa: F401, F811 - fixtures of another room

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from ffrfs import PackedFolder, pack_folder
from ffrfs.cluster import commit, run
from ffrfs.errors import FormatError, PackError, UnfinishedError
from tests.cluster.trees import Beginning, finish, kept, planned
from tests.folder.folder_model import make_folder, shown
from tests.remote.conftest import bucket, give, s3, staging, store
from tests.remote.stored import objects

TIMEOUT_S = 60
MANIFEST = ".ffrfs-manifest.jsonl"


def local(tree: Path, shards: int) -> dict[str, bytes]:
    """Return the set that the same plan makes in a directory."""
    place = tree.parent / "local"
    with planned(tree, place, tree.parent / "plan", shards=shards, reproducible=True) as plan:
        for number in range(shards):
            run(plan, number)
        commit(plan)
    return {path.name: path.read_bytes() for path in place.iterdir()}


def assert_whole(url: str, tree: Path) -> None:
    pack_folder(tree, tree.parent / "one.ffr", reproducible=True)
    expected = {
        path: entry.content
        for path, entry in shown(tree.parent / "one.ffr").items()
        if entry.content is not None
    }
    with PackedFolder(f"{url}/") as folder:
        assert {path: bytes(folder[path]) for path in expected} == expected


def test_task_by_task(bucket: str, store: S3Store, tree: Path, staging: Path) -> None:
    url = f"s3://{bucket}/tasks"
    path = tree.parent / "plan of bucket"
    with planned(tree, url, path, reproducible=True) as plan:  # type: ignore[arg-type]
        assert run(plan, 2, tmp_dir=str(staging)).made is True
        with pytest.raises(PackError, match="2 of 3 shards are missing: number 0, 1"):
            commit(plan)
        with ThreadPoolExecutor(2) as pool:
            rows = [*pool.map(lambda n: run(plan, n, tmp_dir=str(staging)), [0, 2])]
            rows += [run(plan, 1, tmp_dir=str(staging))]
        assert sorted((row.number, row.made) for row in rows) == [(0, True), (1, True), (2, None)]
        summary = commit(plan)
    assert summary.manifest == f"{url}/{MANIFEST}"
    assert objects(store, "tasks") == local(tree, 3)
    assert_whole(url, tree)


def test_a_damaged_object_is_made_again(
    bucket: str, store: S3Store, tree: Path, staging: Path
) -> None:
    url = f"s3://{bucket}/damaged"
    with planned(tree, url, tree.parent / "b", reproducible=True) as plan:  # type: ignore[arg-type]
        row = run(plan, 0, tmp_dir=str(staging))
        data = objects(store, "damaged")["part_00000.ffr"]
        obstore.put(store, "damaged/part_00000.ffr", data[: len(data) // 2])
        assert run(plan, 0, tmp_dir=str(staging)) == row
        assert objects(store, "damaged")["part_00000.ffr"] == data


def test_a_command_that_is_killed(
    bucket: str, store: S3Store, tree: Path, staging: Path, tmp_path: Path
) -> None:
    """It is killed once its first shard is in the bucket; the second one completes all 30."""
    url = f"s3://{bucket}/killed"
    command = [
        *(sys.executable, "-m", "ffrfs", "pack", "-q", "--reproducible", "--shards", "30"),
        *("--executor", "processes:2", "--tmp-dir", tmp_path / "killed", tree, f"{url}/"),
    ]
    (tmp_path / "killed").mkdir()

    def times() -> dict[str, datetime]:
        found = obstore.list(store, "killed").collect()
        return {meta["path"]: meta["last_modified"] for meta in found}

    began_s = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        while not any(name.endswith(".ffr") for name in times()):
            assert process.poll() is None
            assert time.monotonic() - began_s < TIMEOUT_S
            time.sleep(0.01)
        process.kill()
        process.communicate(timeout=TIMEOUT_S)  # until its workers have ended, too
    before = objects(store, "killed")
    assert ".ffrfs-plan" in before
    assert MANIFEST not in before
    left = {name: when for name, when in times().items() if name.endswith(".ffr")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found = objects(store, "killed")
    assert found == local(tree, 30)
    assert left.items() <= times().items()
    assert_whole(url, tree)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")  # the set is complete already
    assert objects(store, "killed") == found


def test_a_shard_of_another_plan_is_not_replaced(
    bucket: str, store: S3Store, tree: Path, staging: Path
) -> None:
    url = f"s3://{bucket}/another"
    with (
        planned(tree, url, tree.parent / "one") as one,  # type: ignore[arg-type]
        planned(tree, url, tree.parent / "two", shards=4) as two,  # type: ignore[arg-type]
    ):
        run(one, 1, tmp_dir=str(staging))
        before = objects(store, "another")
        with pytest.raises(PackError, match=f"^{url}/part_00001.ffr: exists already, and "):
            run(two, 1, tmp_dir=str(staging))
        with pytest.raises(UnfinishedError):
            finish(two, tmp_dir=str(staging))
    found = objects(store, "another")
    assert before.items() <= found.items()
    assert MANIFEST not in found


def test_files_left_out_are_in_the_manifest(
    bucket: str, store: S3Store, tree: Path, staging: Path
) -> None:
    url = f"s3://{bucket}/less"
    with planned(tree, url, tree.parent / "less") as plan:  # type: ignore[arg-type]
        (tree / "top").unlink()
        for number in range(3):
            run(plan, number, on_error="skip", tmp_dir=str(staging))
        assert commit(plan).missing_count == 1
    whole, *rows = map(json.loads, objects(store, "less")[MANIFEST].splitlines())
    assert whole["missing"] == 1
    assert [file["path"] for row in rows for file in row["missing"]] == ["top"]


@pytest.mark.promise("S73")
def test_a_second_command_is_refused_or_joins_the_plan(
    bucket: str, store: S3Store, tree: Path, staging: Path
) -> None:
    """The first plan stays: a command of other sources is refused, an equal one joins in."""
    url = f"s3://{bucket}/two"
    small = make_folder(tree.parent / "small", {"a": b"1", "b": b"2", "c": b"3"})
    with contextlib.ExitStack() as stack:
        begin = Beginning(stack, small, url, 2, tmp_dir=staging)
        with (
            pytest.raises(PackError, match="of other sources or options; finish it by its own"),
            kept(tree, url, 5, tmp_dir=staging, while_listing=begin),
        ):
            pass
        with kept(small, url, 2, tmp_dir=staging) as equal:
            finish(equal, tmp_dir=str(staging))
        before = objects(store, "two")
        finish(begin.plan, tmp_dir=str(staging))
    assert objects(store, "two") == before
    assert sorted(before) == [MANIFEST, "part_00000.ffr", "part_00001.ffr"]


@pytest.mark.promise("S73")
def test_another_set_was_completed_meanwhile(
    bucket: str, store: S3Store, tree: Path, staging: Path
) -> None:
    url = f"s3://{bucket}/by-now"
    small = make_folder(tree.parent / "small", {"a": b"1", "b": b"2", "c": b"3"})

    killed, begun = (f"by-now/.ffrfs-plan-{digit * 16}" for digit in "01")

    def pack() -> None:
        obstore.put(store, killed, b"of one that was killed")
        time.sleep(1.1)  # the times of objects are in whole seconds
        with kept(small, url, 2, tmp_dir=staging) as plan:
            obstore.put(store, begun, b"of one that has begun, and is not named yet")
            finish(plan, tmp_dir=str(staging))
        assert os.path.basename(begun) in objects(store, "by-now")
        obstore.delete(store, begun)

    with (
        pytest.raises(PackError, match="has a shard that is not of this plan"),
        kept(tree, url, 5, tmp_dir=staging, while_listing=pack),
    ):
        pass
    assert sorted(objects(store, "by-now")) == [MANIFEST, "part_00000.ffr", "part_00001.ffr"]
    obstore.put(store, killed, b"damaged")
    for content, fault in {
        b"hostile": "names no plan",
        os.path.basename(killed).encode(): "is damaged",
    }.items():
        obstore.put(store, "by-now/.ffrfs-plan", content)
        with (
            pytest.raises(
                FormatError, match=f"^{url}/.ffrfs-plan: bad plan: it {fault}.*remove it"
            ),
            kept(small, url, 2, tmp_dir=staging),
        ):
            pass


def test_an_archive(bucket: str, store: S3Store, tree: Path, staging: Path) -> None:
    archive = shutil.make_archive(str(tree.parent / "x"), "gztar", tree)
    with planned(Path(archive), f"s3://{bucket}/x", tree.parent / "b", shards=2) as plan:  # type: ignore[arg-type]
        finish(plan)
    assert_whole(f"s3://{bucket}/x", tree)
