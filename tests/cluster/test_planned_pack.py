"""`ffrfs cluster`, `ffrfs pack --executor`: by an engine, task by task, ended and started again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ffrfs.cli.main import main
from ffrfs.cluster import run
from ffrfs.packing.places import shard_name
from tests.cli.command_run import Done, Run
from tests.cluster.trees import assert_nothing_else, files_of, kept
from tests.folder.folder_model import make_folder, shown

TIMEOUT_S = 60
FILES = "38 files"


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return tmp_path / "plan"


def byte_count(*trees: Path) -> str:
    files = [path for tree in trees for path in tree.rglob("*") if path.is_file()]
    return f"{sum(path.stat().st_size for path in files):,} bytes"


def test_task_by_task(ffrfs: Run, tree: Path, target: Path, plan: Path) -> None:
    done = ffrfs("cluster", "plan", plan, "--shards", "5", tree, target)
    assert (done.status, done.err) == (0, "")
    assert done.lines[0].startswith(f"{plan}: 5 shards, {FILES}, ")
    assert not target.exists()
    done = ffrfs("cluster", "status", plan)
    assert (done.status, done.out.decode(), done.err) == (
        1,
        f"{target}: 5 shards, 5 missing: number 0, 1, 2 and 2 more\n",
        "",
    )
    done = ffrfs("cluster", "commit", plan)
    assert done.status == 1
    assert done.err.startswith(f"ffrfs: {target}: 5 of 5 shards are missing: number 0, 1, 2 and 2 ")
    for index, made in ((1, 1), (0, 2), (2, 1)):
        done = ffrfs("cluster", "run", plan, "--task", f"{index}/3", "--jobs", "1")
        shards = [n for n in range(5) if n % 3 == index]
        assert all((target / shard_name(n)).exists() for n in shards)
        count = f"{len(shards)} shard{'s' * (len(shards) > 1)}"
        assert (done.status, done.out.decode()) == (0, f"{target}: {count} made\n"), made
        if index == 0:
            done = ffrfs("cluster", "run", plan, "--task", "0/3")
            assert done.out.decode() == f"{target}: 0 shards made, 2 were there\n"
            done = ffrfs("cluster", "status", "--json", plan)
            assert json.loads(done.out) == {
                "target": str(target),
                "shards": 5,
                "missing": [2],
                "is_complete": False,
            }
    done = ffrfs("cluster", "status", plan)
    assert (done.status, done.lines[0].partition("; ")[0]) == (
        1,
        f"{target}: 5 shards, none is missing",
    )
    done = ffrfs("cluster", "commit", plan)
    assert (done.status, done.out.decode(), done.err) == (
        0,
        f"{target}: {FILES}, {byte_count(tree)}, 5 shards\n",
        "",
    )
    assert_nothing_else(target)
    assert ffrfs("cluster", "status", plan) == Done(
        0, f"{target}: complete, 5 shards\n".encode(), ""
    )
    before = files_of(target)
    assert ffrfs("cluster", "run", plan, "--executor", "processes:1", "-q").status == 0
    assert files_of(target) == before


OLD_NAMES = (
    "ffrfs: --plan, --task and --commit have become `ffrfs cluster plan`, `run` and `commit`; a "
    "later version removes the old names\n"
)


def test_the_old_names_work_and_warn(ffrfs: Run, tree: Path, target: Path, plan: Path) -> None:
    for arguments, last in (
        (("--shards", "2", "--plan", plan, tree, target), f"{plan}: 2 shards, {FILES}, "),
        (("--plan", plan, "--task", "0/2"), f"{target}: 0 shards made, 1 were there"),
        (("--plan", plan, "--executor", "processes:1"), f"{target}: {FILES}, "),
        (("--plan", plan, "--commit"), f"{target}: {FILES}, "),
    ):
        assert ffrfs("pack", "-q", *arguments) == Done(0, b"", "")
        done = ffrfs("pack", *arguments)
        assert (done.status, done.err) == (0, OLD_NAMES)
        assert done.lines[-1].startswith(last)


def test_a_plan_that_workers_list(ffrfs: Run, tree: Path, target: Path, plan: Path) -> None:
    done = ffrfs(
        "cluster", "plan", plan, "--shards", "2", "--executor", "processes:1", tree, target
    )
    assert (done.status, target.exists()) == (0, False)
    assert done.lines[-1].startswith(f"{plan}: 2 shards, {FILES}, ")
    there = plan.read_bytes()
    assert (
        ffrfs("cluster", "plan", plan.parent / "other", "--shards", "2", tree, target).status == 0
    )
    assert (plan.parent / "other").read_bytes() == there


def test_status_of_shards_that_are_added(ffrfs: Run, tree: Path, target: Path, plan: Path) -> None:
    assert ffrfs("pack", "-q", "--shards", "2", tree, target).status == 0
    more = make_folder(tree.parent / "more", {"x": b"x", "y": b"y"})
    ffrfs("cluster", "plan", plan, "--append", "--shards", "2", more, target)
    assert ffrfs("cluster", "run", plan, "--task", "1/2").status == 0
    done = ffrfs("cluster", "status", plan)
    assert (done.status, done.lines) == (1, [f"{target}: 2 shards, 1 missing: number 0"])
    assert ffrfs("cluster", "run", plan, "--task", "0/2").status == 0
    assert ffrfs("cluster", "commit", plan).status == 0
    assert ffrfs("cluster", "status", plan).status == 0


def test_more_tasks_than_shards(ffrfs: Run, tree: Path, target: Path, plan: Path) -> None:
    ffrfs("cluster", "plan", plan, "--shards", "2", tree, target)
    done = ffrfs("cluster", "run", plan, "--task", "7/64")
    assert (done.status, done.out.decode()) == (0, f"{target}: 0 shards made\n")


def test_quiet(ffrfs: Run, tree: Path, target: Path, plan: Path) -> None:
    for arguments in (
        ("cluster", "plan", plan, "--shards", "2", tree, target),
        ("cluster", "run", plan, "--task", "0/1"),
        ("cluster", "commit", plan),
        ("pack", "--shards", "2", "--executor", "processes:1", tree, target.parent / "other"),
    ):
        assert ffrfs(*arguments, "-q") == Done(0, b"", "")


def test_skipped_files_are_named(ffrfs: Run, tree: Path, target: Path, plan: Path) -> None:
    os.mkfifo(tree / "fifo")
    (tree / os.fsdecode(b"\xff")).write_bytes(b"")
    arguments = ("--shards", "2", tree, target)
    done = ffrfs("cluster", "plan", plan, *arguments)
    assert (done.status, plan.exists(), target.exists()) == (1, False, False)
    done = ffrfs("cluster", "plan", plan, "--skip-special", *arguments)
    assert done.status == 0
    assert f"{tree}/fifo: skipped" in done.err
    assert done.err.count(": skipped\n") == 2


@pytest.mark.parametrize(("on_error", "status"), [("stop", 1), ("skip", 0), ("record", 1)])
def test_a_file_that_was_removed_after_planning(  # noqa: PLR0917 - fixtures
    ffrfs: Run, tree: Path, target: Path, plan: Path, on_error: str, status: int
) -> None:
    ffrfs("cluster", "plan", plan, "--shards", "2", tree, target)
    (tree / "top").unlink()
    options = ("--on-error", on_error)
    done = ffrfs("cluster", "run", plan, "--executor", "processes:1", *options)
    assert done.status == status
    if on_error == "stop":
        assert done.err.splitlines()[-1].startswith(
            f"ffrfs: {tree}: top: No such file or directory; repair it and run the same command"
        )
        assert not (target / ".ffrfs-manifest.jsonl").exists()
        return
    assert "ffrfs: top: left out: No such file or directory\n" in done.err
    assert done.out.decode().endswith(", 2 shards, 1 file left out\n")
    assert "top" not in shown(target)
    # Every later command reports the files that were left out.
    done = ffrfs("cluster", "commit", plan, *options)
    assert (done.status, done.lines[0].endswith("1 file left out")) == (status, True)
    done = ffrfs("cluster", "run", plan, "--task", "0/1", *options)
    assert (done.status, "top: left out: " in done.err) == (status, True)


USAGE = {
    "--task 0/1": "argument --task: needs --plan",
    "--commit": "argument --commit: needs --plan",
    "--on-error skip a b": "argument --on-error: needs --executor",
    "--plan p --task 0/1 --commit": "argument --task: not with --commit or --executor",
    "--plan p --task 0/1 --executor mpi": "argument --task: not with --commit or --executor",
    "--plan p": "argument --plan: needs SRC and DST, or --task, --commit or --executor",
    "--plan p a b --task 0/1 --shards 1": "argument SRC: the plan names it already",
    "--plan p a --task 0/1": "argument SRC: the plan names it already",
    "--plan p a b --commit": "argument SRC: the plan names it already",
    "--plan p a b": "argument --executor: needs --shards or --shard-size",
    "--executor mpi a b": "argument --executor: needs --shards or --shard-size",
    "--executor mpi": "the following arguments are required: SRC, DST",
    "--executor mpi --shards 2 a": "the following arguments are required: SRC",
    "--plan p a --executor mpi": "the following arguments are required: SRC",
    "--plan p --task 0/1 --shards 2": "argument --shards: the plan has it already",
    "--plan p --commit --reproducible": "argument --reproducible: the plan has it already",
    "--plan p --task 3/3": (
        "argument --task: '3/3' is not a task; write I/N with I from 0 to N - 1, as in 3/64"
    ),
    "--plan p --task x": (
        "argument --task: 'x' is not a task; write I/N with I from 0 to N - 1, as in 3/64"
    ),
}


USAGE_OF_CLUSTER = {
    "plan p a b": "--shards, --shard-size or --append is required",
    "plan p a": "the following arguments are required: DST",
    "plan p a b --shards 2 --list": "argument --list: needs --dry-run",
    "run p": "one of the arguments --task --executor is required",
    "run p --task 0/1 --executor mpi": "argument --executor: not allowed with argument --task",
    "run p --task 0/1 --dedup": "unknown argument --dedup",
    "run p --task 3/3": (
        "argument --task: '3/3' is not a task; write I/N with I from 0 to N - 1, as in 3/64"
    ),
}


@pytest.mark.parametrize("line", USAGE)
def test_wrong_usage(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert_wrong("pack", line, USAGE[line], capsys)


@pytest.mark.parametrize("line", USAGE_OF_CLUSTER)
def test_wrong_usage_of_cluster(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    action, _, rest = line.partition(" ")
    assert_wrong(f"cluster {action}", rest, USAGE_OF_CLUSTER[line], capsys)


def assert_wrong(command: str, line: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([*command.split(), *line.split()])
    assert end.value.code == 2
    assert capsys.readouterr().err == f"ffrfs {command}: {reason}; see ffrfs {command} --help\n"


def test_a_file_that_is_not_a_plan(ffrfs: Run, tmp_path: Path) -> None:
    (tmp_path / "plan").write_bytes(b"hello" * 100)
    for action, *options in (
        ("commit",),
        ("status",),
        ("run", "--task", "0/1"),
        ("run", "--executor", "processes:1"),
    ):
        done = ffrfs("cluster", action, tmp_path / "plan", *options)
        assert (done.status, done.out) == (1, b"")
        assert done.err == (
            f"ffrfs: {tmp_path}/plan: bad plan: it is not a plan of ffrfs; make the plan again\n"
        )


def test_the_plan_of_another_command(ffrfs: Run, tree: Path, target: Path) -> None:
    (tree / "fifo").write_bytes(b"")
    options = ("--executor", "processes:1", "-q")
    hold(tree, target)
    before = files_of(target)
    done = ffrfs("pack", "--shards", "4", *options, tree, target)
    assert done.status == 1
    assert done.err == (
        f"ffrfs: {target}: has the plan .ffrfs-plan of other sources or options; finish it by its "
        "own command, or remove it together with its shards\n"
    )
    assert files_of(target) == before
    assert ffrfs("pack", "--shards", "3", *options, tree, target) == Done(0, b"", "")
    assert_nothing_else(target)
    done = ffrfs("pack", "--shards", "4", *options, tree, target)
    assert done.err == (
        f"ffrfs: {target}: is not empty; write the shards elsewhere, or add to a set with "
        "--append\n"
    )


def hold(tree: Path, target: Path) -> None:
    """Leave a plan and a shard behind, as a killed command does."""
    with pytest.raises(KeyboardInterrupt), kept(tree, target, 3) as plan:
        run(plan, 1)
        raise KeyboardInterrupt
    assert sorted(os.listdir(target)) == [".ffrfs-plan", "part_00001.ffr"]


@pytest.mark.parametrize("is_there", [False, True])
def test_a_source_that_cannot_be_planned_leaves_no_files(
    ffrfs: Run, tree: Path, target: Path, is_there: bool
) -> None:
    (tree / "away").symlink_to("/etc")
    if is_there:
        target.mkdir()
    done = ffrfs("pack", "--shards", "3", "--executor", "processes:1", tree, target)
    assert (done.status, "leads out of it" in done.err) == (1, True)
    assert target.exists() == is_there
    assert not is_there or os.listdir(target) == []


def test_a_missing_source_leaves_no_new_directories(ffrfs: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    words = ("pack", "--shards", "2", "--executor", "processes:1", tmp_path / "nothing")
    assert ffrfs(*words, tmp_path / "mine" / "p" / "q" / "r").status == 1
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]


def test_a_target_that_is_a_file(ffrfs: Run, tree: Path, target: Path) -> None:
    target.write_text("mine")
    done = ffrfs("pack", "--shards", "3", "--executor", "processes:1", tree, target)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert target.read_text() == "mine"


def test_append(ffrfs: Run, tree: Path, target: Path) -> None:
    options = ("--executor", "processes:1", "-q")
    assert ffrfs("pack", "--shards", "2", *options, tree, target).status == 0
    more = make_folder(tree.parent / "more", {"d0": {"new": b"n"}, "z": b"z"})
    assert ffrfs("pack", "--shards", "2", "--append", *options, more, target) == Done(0, b"", "")
    assert sorted(path.name for path in target.glob("*.ffr")) == [shard_name(n) for n in range(4)]
    assert {"d0/new", "z", "top"} < set(shown(target))
    assert_nothing_else(target)
    again = ffrfs("pack", "--shards", "2", "--append", *options[:-1], more, target)
    assert (again.status, again.out.decode()) == (
        0,
        f"{target}: complete already: 40 files, {byte_count(tree, more)}, 4 shards\n",
    )
    (more / "z").write_bytes(b"changed")
    done = ffrfs("pack", "--shards", "2", "--append", *options, more, target)
    assert (done.status, "already; exclude it, or make a new set" in done.err) == (1, True)
    assert_nothing_else(target)


@pytest.mark.parametrize("is_of_group", [False, True])
def test_ctrl_c(tmp_path: Path, is_of_group: bool) -> None:
    """Finished shards stay, and the same command goes on. So many shards take seconds."""
    chance = random.Random(11)
    files = {f"{n}": {f"{m}": chance.randbytes(20_000) for m in range(20)} for n in range(12)}
    tree, target = make_folder(tmp_path / "tree", files), tmp_path / "set"
    command = [
        *(sys.executable, "-m", "ffrfs", "pack", "--shards", "120", "--executor", "processes:2"),
        *(tree, target),
    ]
    with subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            while not list(target.glob("*.ffr")) and process.poll() is None:
                time.sleep(0.001)
            if is_of_group:
                os.killpg(process.pid, signal.SIGINT)
            else:
                process.send_signal(signal.SIGINT)
            # Its workers have its pipes, too, so they have also ended once this returns.
            out, err = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
    assert process.returncode == 130
    assert (out, "Traceback" in err) == ("", False)
    before = {path: path.stat().st_ino for path in target.glob("*.ffr")}
    assert 1 <= len(before) < 120
    assert {path.name for path in target.iterdir() if path not in before} == {".ffrfs-plan"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stdout) == (
        0,
        f"{target}: 240 files, 4,800,000 bytes, 120 shards\n",
    )
    assert all(path.stat().st_ino == inode for path, inode in before.items())
    assert_nothing_else(target)
