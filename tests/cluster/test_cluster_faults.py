"""Files that change, disks that are full, processes that are killed: nothing is ever half made."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs.cluster import Plan, commit, run
from ffrfs.errors import PackError, UnfinishedError
from tests.cluster.trees import (
    add_links,
    assert_nothing_else,
    files_of,
    finish,
    make_tree,
    planned,
    states,
)
from tests.folder.folder_model import make_folder, shown
from tests.tiny_disk import run_on_tiny_disk

TIMEOUT_S = 60
BAD = "d1/e1/002 é.bin"
MANIFEST = ".ffrfs-manifest.jsonl"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return add_links(make_tree(tmp_path / "tree"))


@pytest.fixture
def plan(tree: Path, target: Path) -> Iterator[Plan]:
    with planned(tree, target, target.parent / "plan", symlinks="keep") as made:
        yield made


def spoil(path: Path, kind: str) -> str:  # noqa: PLR0911 - one of each kind
    """Change the file after it was listed; return the reason that must be reported."""
    size = path.stat().st_size
    if kind == "longer":
        path.write_bytes(b"x" * (size + 5))
        return f"has {size + 5} bytes, and had {size} when it was listed"
    if kind == "empty":
        path.write_bytes(b"")
        return f"has 0 bytes, and had {size} when it was listed"
    if kind == "time":
        os.utime(path, ns=(0, 12_345))
        return "was changed after it was listed"
    path.unlink()
    if kind == "FIFO":
        os.mkfifo(path)
        return "is no longer a regular file"
    if kind == "directory":
        path.mkdir()
        return "is no longer a regular file"
    if kind == "loop":
        path.symlink_to(path.name)
        return "Too many levels of symbolic links"
    return "No such file or directory"


KINDS = ["longer", "empty", "time", "vanished", "FIFO", "directory", "loop"]


@pytest.mark.parametrize("kind", KINDS)
def test_on_error_stop(tree: Path, plan: Plan, target: Path, kind: str) -> None:
    before = (tree / BAD).read_bytes()
    info = (tree / BAD).stat()
    reason = spoil(tree / BAD, kind)
    with pytest.raises(UnfinishedError) as caught:
        finish(plan)
    assert str(caught.value).startswith(
        f"{tree}: {BAD}: {reason}; repair it and run the same command"
    )
    assert all(path.suffix == ".ffr" for path in target.iterdir())
    with pytest.raises(PackError, match="shards are missing: number"):
        commit(plan)
    # When the file is repaired, the same call ends well.
    subprocess.run(["rm", "-rf", tree / BAD], check=True)
    (tree / BAD).write_bytes(before)
    (tree / BAD).chmod(info.st_mode)
    os.utime(tree / BAD, ns=(0, info.st_mtime_ns))
    finish(plan)
    assert_nothing_else(target)
    assert shown(target)[BAD].content == before


@pytest.mark.parametrize(("kind", "on_error"), [*zip(KINDS, ["skip", "record"] * 4, strict=False)])
def test_on_error_skip_and_record(
    tree: Path, plan: Plan, target: Path, kind: str, on_error: str
) -> None:
    size = (tree / BAD).stat().st_size
    reason = spoil(tree / BAD, kind)
    summary, missing = finish(plan, on_error=on_error)  # type: ignore[arg-type]
    assert [tuple(file) for file in missing] == [(BAD, reason)]
    assert summary.missing_count == 1
    whole, *rows = map(json.loads, (target / MANIFEST).read_text().splitlines())
    assert (whole["files"], whole["missing"]) == (plan.file_count - 1, 1)
    assert whole["bytes"] == plan.byte_count - size
    assert [row["missing"] for row in rows if row["missing"]] == [[{"path": BAD, "reason": reason}]]
    found = shown(target)
    assert BAD not in found
    assert found["d1/e1/003 é.bin"].content == (tree / "d1/e1/003 é.bin").read_bytes()
    assert_nothing_else(target)


def test_files_left_out_are_reported_again(tree: Path, plan: Plan, target: Path) -> None:
    """Tasks that find whole shards, with links and empty directories, too, report it again."""
    size = (tree / BAD).stat().st_size
    spoil(tree / BAD, "vanished")
    rows = [run(plan, number, on_error="skip") for number in range(len(plan))]
    again = [run(plan, number, on_error="skip") for number in range(len(plan))]
    assert [row.file_count for row in again] == [row.file_count for row in rows]
    assert [row.byte_count for row in again] == [row.byte_count for row in rows]
    assert [file.path for row in again for file in row.missing] == [BAD]
    summary = commit(plan)
    assert (summary.missing_count, summary.file_count) == (1, plan.file_count - 1)
    assert summary.byte_count == plan.byte_count - size


def test_a_shard_that_lacks_a_file_is_made_again(tree: Path, plan: Plan, target: Path) -> None:
    """`on_error="stop"` makes the shard again, as the file is there again."""
    data, info = (tree / BAD).read_bytes(), (tree / BAD).stat()
    spoil(tree / BAD, "vanished")
    finish(plan, on_error="skip")
    (tree / BAD).write_bytes(data)
    (tree / BAD).chmod(info.st_mode)
    os.utime(tree / BAD, ns=(0, info.st_mtime_ns))
    summary, _ = finish(plan)
    assert summary.missing_count == 0
    assert BAD in shown(target)


def test_all_files_of_a_shard_are_missing(tmp_path: Path) -> None:
    tree = make_folder(tmp_path / "tree", {"d": {"a": b"1", "b": b"2"}, "e": {"c": b"3"}})
    with planned(tree, tmp_path / "set", tmp_path / "plan", shards=3) as plan:
        for path in ("d/a", "d/b", "e/c"):
            (tree / path).unlink()
        summary, missing = finish(plan, on_error="skip")
    assert [file.path for file in missing] == ["d/a", "d/b", "e/c"]
    assert (summary.file_count, summary.missing_count) == (0, 3)
    assert set(shown(tmp_path / "set")) == {"d", "e"}


@pytest.mark.promise("S67")
@pytest.mark.parametrize("symlinks", ["inside", "keep"])
def test_a_file_moved_behind_a_link_that_is_not_followed(tmp_path: Path, symlinks: str) -> None:
    """The file is the same as when it was listed, but no longer where the packer may go."""
    tree = make_folder(tmp_path / "tree", {"a": b"1", "d": {"b": b"2"}, "e": {"c": b"3"}})
    with planned(tree, tmp_path / "set", tmp_path / "plan", symlinks=symlinks) as plan:
        (tree / "d").rename(tmp_path / "away" if symlinks == "inside" else tree / "e" / "d")
        (tree / "d").symlink_to(tmp_path / "away" if symlinks == "inside" else "e/d")
        _, missing = finish(plan, on_error="skip")
    assert [tuple(file) for file in missing] == [("d/b", "is behind a symbolic link by now")]
    assert set(shown(tmp_path / "set")) == {"a", "d", "e", "e/c"}


def test_a_source_that_vanished(tree: Path, plan: Plan, target: Path) -> None:
    tree.rename(tree.parent / "away")
    with pytest.raises(UnfinishedError, match="No such file"):
        finish(plan)
    (tree.parent / "away").rename(tree)
    finish(plan)


def test_a_changed_time_is_noticed_in_a_reproducible_set(tree: Path, target: Path) -> None:
    """The set has no times, but a file whose time has changed is noticed nevertheless."""
    with planned(tree, target, target.parent / "plan", symlinks="keep", reproducible=True) as plan:
        spoil(tree / BAD, "time")
        _, missing = finish(plan, on_error="skip")
    assert [file.path for file in missing] == [BAD]


def command(tree: Path, target: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "ffrfs", "pack", "-q", "--reproducible", "--executor"),
        *("processes:2", "--shards", "8", *more, str(tree), str(target)),
    ]


def large(path: Path) -> Path:
    chance = random.Random(10)
    for number in range(60):
        (path / f"{number % 7}").mkdir(parents=True, exist_ok=True)
        (path / f"{number % 7}" / f"{number}").write_bytes(chance.randbytes(20_000))
    return path


def descendants(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
        for number in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [int(number), *descendants(int(number))]
    return found


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """The driver or a worker is killed; shards appear whole, and the same command ends well."""
    tree, target = large(tmp_path / "tree"), tmp_path / "set"
    began_s = time.monotonic()
    subprocess.run(command(tree, tmp_path / "whole"), check=True, timeout=TIMEOUT_S)
    took_s = time.monotonic() - began_s
    expected = files_of(tmp_path / "whole")
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    note = f"seed {seed}"
    for turn in range(5):
        before = states(target) if target.exists() else {}
        with subprocess.Popen(command(tree, target)) as process:
            time.sleep(chance.uniform(0.2, 1) * took_s * (0.6 if turn < 3 else 1))
            if chance.random() < 0.3:  # a worker: its task begins again elsewhere
                for pid in descendants(process.pid) if process.poll() is None else []:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        continue
                    break
                assert process.wait(TIMEOUT_S) == 0, note
                assert files_of(target) == expected, note
                subprocess.run(["rm", "-rf", target], check=True)
                continue
            process.kill()
            process.wait(TIMEOUT_S)
        for path in target.glob("part_*.ffr") if target.exists() else ():
            assert path.read_bytes() == expected[path.name], note
            assert before.get(path.name, states(target)[path.name]) == states(target)[path.name]
        if (
            target.exists()
            and (target / MANIFEST).exists()
            and not (target / ".ffrfs-plan").exists()
        ):
            assert files_of(target) == expected, note
            subprocess.run(["rm", "-rf", target], check=True)
    if not (target.exists() and (target / MANIFEST).exists()):
        subprocess.run(command(tree, target), check=True, timeout=TIMEOUT_S)
    assert files_of(target) == expected, note


FULL_TEMPORARY_DISK = """
import contextlib, json, sys
from concurrent.futures import ThreadPoolExecutor
from ffrfs.cluster import plan
disk, tree, place = sys.argv[1:]
with open(f"{disk}/full", "wb", 0) as file, contextlib.suppress(OSError):
    while True:
        file.write(bytes(4096))
try:
    with ThreadPoolExecutor(1) as pool:
        options = {"executor": pool, "tmp_dir": disk, "symlinks": "keep"}
        plan(tree, f"{place}/set", f"{place}/plan", shards=2, **options)
except OSError as error:
    print(json.dumps([error.strerror, error.filename]))
"""


def test_a_full_temporary_directory_is_named(tree: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    [line] = run_on_tiny_disk(disk, FULL_TEMPORARY_DISK, str(tree), str(tmp_path))
    assert json.loads(line) == ["No space left on device", str(disk)]


TASK = """
import sys
from ffrfs.cluster import Plan, run
with Plan(sys.argv[1]) as plan:
    print("begun", flush=True)
    for number in map(int, sys.argv[2:]):
        run(plan, number)
"""


def test_tasks_that_are_killed(tmp_path: Path) -> None:
    tree, target = large(tmp_path / "tree"), tmp_path / "set"
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    with planned(tree, target, tmp_path / "plan", shards=12) as plan:
        numbers = [str(number) for number in range(12)]
        for _ in range(6):
            chance.shuffle(numbers)
            with subprocess.Popen(
                [sys.executable, "-c", TASK, plan.path, *numbers], stdout=subprocess.PIPE
            ) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == b"begun\n"
                time.sleep(chance.uniform(0, 0.08))
                process.kill()
            before = states(target) if target.exists() else {}
            with (
                pytest.raises(PackError, match="shards are missing")
                if len(before) < 12
                else never()
            ):
                commit(plan)
        finish(plan)
        assert before.items() <= states(target).items(), seed
        found = files_of(target)
        subprocess.run(["rm", "-rf", target], check=True)
        finish(plan)
        assert files_of(target) == found, seed


def never():
    return contextlib.nullcontext()


FULL = """
import json, os, subprocess, sys
disk, tree = sys.argv[1:]
command = [sys.executable, "-m", "ffrfs", "pack", "-q", "--executor", "processes:2",
           "--shards", "8", tree, disk + "/set"]
with open(disk + "/filler", "wb") as filler:
    filler.write(bytes(500_000))
done = subprocess.run(command, capture_output=True, text=True)
kept = {name: os.stat(disk + "/set/" + name).st_ino for name in os.listdir(disk + "/set")}
print(json.dumps([done.returncode, done.stderr, kept]))
os.unlink(disk + "/filler")
done = subprocess.run(command, capture_output=True, text=True)
after = {name: os.stat(disk + "/set/" + name).st_ino for name in os.listdir(disk + "/set")}
print(json.dumps([done.returncode, done.stderr, after]))
"""


def test_a_full_disk(tmp_path: Path) -> None:
    tree = make_folder(tmp_path / "tree", {f"{n:02}": os.urandom(40_000) for n in range(16)})
    disk = tmp_path / "disk"
    (status, text, kept), (again, rest, after) = map(
        json.loads, run_on_tiny_disk(disk, FULL, str(tree))
    )
    assert status == 1
    assert "No space left on device" in text
    assert f"{disk}/set" in text.splitlines()[-1]
    assert "and it makes the rest" in text
    shards = {name: inode for name, inode in kept.items() if name.endswith(".ffr")}
    assert 1 <= len(shards) < 8
    assert set(kept) == {*shards, ".ffrfs-plan"}
    assert (again, rest) == (0, "")
    assert shards.items() <= after.items()
    assert sorted(after) == [MANIFEST, *(f"part_0000{number}.ffr" for number in range(8))]
