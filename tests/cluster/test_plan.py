"""A plan is a function of its listing, and its tasks are functions of the plan."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ffrfs.cluster import Plan, commit, file_task, run
from ffrfs.cluster.executors import open_executor
from ffrfs.cluster.file_task import FileTask, run_file
from ffrfs.cluster.packing import pack_by_plan
from ffrfs.errors import FormatError, OptionError
from tests.cluster.trees import add_links, files_of, finish, make_tree, planned, shards_of
from tests.folder.folder_model import make_folder, shown
from tests.tfrecord_file import tfrecord_records, write_tfrecord

SHARDS = 4


def packed(plan: Plan, executor: Executor) -> dict[str, bytes]:
    """Pack the set again; return its files."""
    shutil.rmtree(plan.target, ignore_errors=True)
    pack_by_plan(plan, executor)
    return files_of(Path(plan.target))


@pytest.mark.parametrize("reproducible", [False, True])
def test_threads_processes_and_tasks_make_the_same_set(
    tree: Path, tmp_path: Path, reproducible: bool
) -> None:
    """By threads, by processes, and by tasks in any order and twice, the set is the same."""
    add_links(tree)
    options = {"shards": SHARDS, "symlinks": "keep", "reproducible": reproducible}
    with planned(tree, tmp_path / "set", tmp_path / "plan", **options) as plan:
        with ThreadPoolExecutor(1) as pool:
            expected = packed(plan, pool)
        assert len(expected) == SHARDS + 1
        with ThreadPoolExecutor(5) as pool:
            assert packed(plan, pool) == expected
        with open_executor("processes:2") as processes:
            assert packed(plan, processes) == expected
        shutil.rmtree(tmp_path / "set")
        numbers = [*range(SHARDS)] * 2
        random.Random(1).shuffle(numbers)
        made = [run(plan, number).made for number in numbers]
        assert made.count(True) == SHARDS
        assert made.count(None) == SHARDS
        commit(plan)
        assert files_of(tmp_path / "set") == expected


def test_two_tasks_make_the_same_shard_at_the_same_time(tree: Path, tmp_path: Path) -> None:
    with planned(tree, tmp_path / "set", tmp_path / "plan", shards=1) as plan:
        with ThreadPoolExecutor(1) as pool:
            expected = packed(plan, pool)
        for _ in range(5):
            shutil.rmtree(tmp_path / "set")
            with Plan(plan.path) as other, ThreadPoolExecutor(2) as pool:
                rows = [*pool.map(lambda one: run(one, 0), [plan, other])]
            assert rows[0].checksum == rows[1].checksum
            commit(plan)
            assert files_of(tmp_path / "set") == expected


@pytest.mark.parametrize("symlinks", ["keep", "skip"])
def test_equal_trees_have_equal_sets(tree: Path, tmp_path: Path, symlinks: str) -> None:
    """Reproducible sets are equal wherever their trees are, and whatever their times."""
    add_links(tree)
    shutil.copytree(tree, tmp_path / "copy", symlinks=True)
    for path in sorted((tmp_path / "copy").rglob("*")):
        os.utime(path, ns=(5, 5), follow_symlinks=False)
    found = []
    for name in ("tree", "copy"):
        target = tmp_path / f"set of {name}"
        options = {"reproducible": True, "symlinks": symlinks, "shards": SHARDS}
        with planned(tmp_path / name, target, tmp_path / f"{name}.plan", **options) as plan:
            finish(plan)
        found.append(files_of(target))
    assert found[0] == found[1]


def test_equal_listings_have_equal_plans(tree: Path, tmp_path: Path) -> None:
    os.mkfifo(tree / "d0" / "fifo")
    os.mkfifo(tree / "d2" / "fifo")
    options: dict[str, Any] = {"reproducible": True, "skip_special": True}
    planned(tree, tmp_path / "set", tmp_path / "one", **options).close()
    planned(tree, tmp_path / "set", tmp_path / "own", executor=None, **options).close()
    assert (tmp_path / "one").read_bytes() == (tmp_path / "own").read_bytes()
    with open_executor("processes:2") as processes:
        planned(tree, tmp_path / "set", tmp_path / "two", executor=processes, **options).close()
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_different_listings_have_different_ids(tree: Path, tmp_path: Path) -> None:
    def id_of(**options: Any) -> bytes:
        with planned(tree, tmp_path / "set", tmp_path / "plan", **options) as plan:
            return plan.set_id

    ids = {id_of(), id_of(reproducible=True), id_of(shards=2), id_of(shard_size=40_000)}
    os.utime(tree / "top", (5, 5))
    assert id_of(reproducible=True) in ids
    ids.add(id_of())
    (tree / "new").write_bytes(b"")
    ids |= {id_of(), id_of(reproducible=True)}
    assert len(ids) == 7


@pytest.mark.parametrize("kind", ["many", "deep", "long names", "links"])
def test_no_shard_exceeds_the_requested_size(tmp_path: Path, kind: str) -> None:
    size_max = 50_000
    tree = tmp_path / "tree"
    for number in range({"deep": 150, "long names": 350}.get(kind, 1000)):
        if kind == "deep":
            folder = tree / f"{number}" / "/".join("abcdefghij")
        else:
            folder = tree / f"{number // 100}"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{number}{'名' * 70}" if kind == "long names" else f"{number}"
        (folder / name).write_bytes(b"")
        if kind == "links":
            (folder / f"link{number}").symlink_to("x" * 100)
    with planned(
        tree, tmp_path / "set", tmp_path / "plan", shard_size=size_max, symlinks="keep"
    ) as plan:
        finish(plan)
    sizes = [len(data) for data in shards_of(tmp_path / "set").values()]
    assert max(sizes) <= size_max
    assert len(sizes) <= 30


def test_tasks_are_small_values(tree: Path, tmp_path: Path) -> None:
    """A task goes to another machine, and has all that it needs."""
    with planned(tree, tmp_path / "set", tmp_path / "plan") as plan:
        tasks = [plan.task(number) for number in range(len(plan))]
    assert sum(task.file_count for task in tasks) == plan.file_count
    assert sum(task.byte_count for task in tasks) == plan.byte_count
    assert max(len(pickle.dumps(task)) for task in tasks) < 4000
    assert [task.shard[1:] for task in tasks] == [(number, 3) for number in range(3)]


def test_tasks_carry_the_addresses_of_servers(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task has the addresses of servers, but no secrets."""
    monkeypatch.setenv("FFRFS_ENDPOINT_URL", "http://here:1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with planned(tree, tmp_path / "set", tmp_path / "plan") as plan:
        task = plan.task(0)
    assert ("FFRFS_ENDPOINT_URL", "http://here:1") in task.environment
    assert b"secret" not in pickle.dumps(task)


def test_settings_of_a_task_do_not_leak_into_later_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker of Dask lives longer than a command."""
    names = ("FFRFS_ENDPOINT_URL", "FFRFS_REGION", "FFRFS_OFFLINE")
    monkeypatch.setattr(file_task, "_own", {})
    monkeypatch.setenv("FFRFS_REGION", "own")
    for name in (names[0], names[2]):
        monkeypatch.delenv(name, raising=False)
    for given, expected in (
        ({names[0]: "http://a", names[1]: "a", names[2]: "1"}, ["http://a", "a", "1"]),
        ({names[0]: "http://b"}, ["http://b", "own", None]),
        ({}, [None, "own", None]),
    ):
        for _ in range(2):
            told = run_file(_Asking("x", environment=tuple(given.items())))
            assert [told.result.get(name) for name in names] == expected


class _Asking(FileTask[dict[str, str]]):
    """A task that returns its environment."""

    def run(self) -> dict[str, str]:
        return dict(os.environ)


def test_files_of_an_iterator(tmp_path: Path) -> None:
    make_folder(tmp_path / "tree", {"a": b"1", "b": b"2"})
    files = iter(["b"])
    with planned(tmp_path / "tree", tmp_path / "set", tmp_path / "plan", files=files) as plan:
        run(plan, 0)
        assert commit(plan).file_count == 1
    assert list(shown(tmp_path / "set")) == ["b"]


def test_a_task_number_out_of_range(tree: Path, tmp_path: Path) -> None:
    with planned(tree, tmp_path / "set", tmp_path / "plan") as plan, pytest.raises(IndexError):
        run(plan, 3)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"shards": 0}, "shards must be at least 1"),
        ({"shard_size": -1}, "shard_size must be at least 1"),
        ({"jobs": 0}, "jobs must be at least 1"),
        ({"shards": 1, "shard_size": 1}, "shards and shard_size: one of them"),
        ({"shards": None}, "shards or shard_size, one of them"),
        ({"symlinks": "maybe"}, "symlinks must be one of"),
    ],
)
def test_invalid_options(tree: Path, tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        planned(tree, tmp_path / "set", tmp_path / "plan", **options)
    assert not (tmp_path / "plan").exists()


def test_several_directories_are_refused(tree: Path, tmp_path: Path) -> None:
    make_tree(tmp_path / "other")
    with pytest.raises(OptionError, match="/tree is neither a pack nor a pack set; name it alone"):
        planned([tree, tmp_path / "other"], tmp_path / "set", tmp_path / "plan")
    with pytest.raises(OptionError, match="a plan needs a directory, an archive, or packs"):
        planned([], tmp_path / "set", tmp_path / "plan")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kind", "x"),
        ("first_number", -1),
        ("first_number", 2**70),
        ("first_number", True),
        ("set_id", "xyz"),
        ("set_id", "00"),
        ("request", None),
        ("request", {"sources": ["x"]}),
        ("time_ns", "soon"),
        ("time_ns", 2**70),
        ("target", 5),
        ("sources", [5]),
        ("shards", "x"),
        ("symlinks", "x"),
        ("symlinks", [{}]),
    ],
)
def test_invalid_headers(tree: Path, tmp_path: Path, key: str, value: object) -> None:
    planned(tree, tmp_path / "set", tmp_path / "plan").close()
    first, *others = tfrecord_records((tmp_path / "plan").read_bytes())
    header = json.loads(first)
    (header if key in header else header["request"])[key] = value
    write_tfrecord(tmp_path / "plan", [json.dumps(header).encode(), *others])
    with pytest.raises(FormatError, match=f"^{tmp_path}/plan: bad plan: .*make the plan again$"):
        Plan(tmp_path / "plan").close()
