"""Every engine makes the set that one process makes, also if a worker is killed in mid-shard."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from ffrfs.cluster.piece import PLAN_NAME
from tests.cluster.engines import mpi_command
from tests.cluster.trees import add_links, files_of, make_tree, shards_of
from tests.mount.command import ffrfs as command

SHARDS = 8
SHARD_SIZE = 12 << 20
FILES = 48
TIMEOUT_S = 100
ATTEMPTS = 10


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source")
    pick = random.Random(9)
    for number in range(FILES):
        path = root / f"{number % 5}" / f"{number}.bin"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(pick.randbytes(SHARDS * SHARD_SIZE // FILES))
    small = add_links(make_tree(root / "small"))
    os.link(small / "top", small / "d2" / "the same")
    return root


@pytest.fixture(scope="session")
def expected(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The set that one worker process makes; its shards are the same as without an executor."""
    target = tmp_path_factory.mktemp("expected") / "set"
    assert command(*words("processes:1"), source, target).status == 0
    alone = target.with_name("alone")
    assert command("pack", "-q", *options(), source, alone).status == 0
    assert shards_of(target) == files_of(alone)
    return files_of(target)


def words(executor: str) -> list[str]:
    return ["pack", "-q", "--executor", executor, *options()]


def options() -> list[str]:
    return ["--shards", str(SHARDS), "--reproducible", "--symlinks", "keep", "--jobs", "1"]


def program(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "ffrfs", *map(str, arguments)]


def writer_in(folder: Path, pids: str) -> int | None:
    """Return a process that has a nameless file open in `folder`; `pids` is a pattern of /proc."""
    begin = f"{folder}/#"
    for entry in Path("/proc").glob(pids):
        with contextlib.suppress(OSError):
            for fd in (entry / "fd").iterdir():
                if os.readlink(fd).startswith(begin):
                    return int(entry.name)
    return None


def run_and_kill(arguments: Sequence[str], target: Path) -> int:
    """Run a program, and kill the process that makes a shard; return the status of the program.

    Looking at all processes of a busy machine takes longer than making some shards: if no shard was
    seen while it was made, the program is started again.
    """
    for _ in range(ATTEMPTS):
        status = _run_and_kill(arguments, target)
        if status is not None:
            return status
        shutil.rmtree(target)
    raise AssertionError("no shard was seen while it was made")


def _run_and_kill(arguments: Sequence[str], target: Path) -> int | None:
    running = subprocess.Popen(
        arguments, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    is_task = "--task" in arguments
    plan = target / PLAN_NAME  # no shard is made before it exists, and looking takes CPU
    killed = None
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while running.poll() is None:
            assert time.monotonic() < deadline
            if killed is None and (is_task or plan.exists()):
                found = writer_in(target, str(running.pid) if is_task else "[0-9]*")
                # The open file of a driver is its plan, not a shard.
                if found is not None and (is_task or found != running.pid):
                    killed = found
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(killed, signal.SIGKILL)
            time.sleep(0.001 if killed is None else 0.05)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    return None if killed is None else running.returncode


@pytest.mark.promise("S66", "S67")
@pytest.mark.parametrize("executor_text", ["processes", "dask", "ray"], indirect=True)
def test_a_worker_is_killed(
    executor_text: str, source: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    """Its task begins again, and the command ends well."""
    target = tmp_path / "set"
    assert run_and_kill(program(*words(executor_text), source, target), target) == 0
    assert files_of(target) == expected


@pytest.mark.promise("S66", "S67")
@pytest.mark.xdist_group("mpi")
def test_a_rank_of_mpi_is_killed(source: Path, expected: dict[str, bytes], tmp_path: Path) -> None:
    """MPI ends the whole job; the same command goes on."""
    target = tmp_path / "set"
    arguments = mpi_command("-m", "ffrfs", *words("mpi"), str(source), str(target))
    assert run_and_kill(arguments, target) != 0
    left = {path.name for path in target.glob("*.ffr")}
    assert left < expected.keys()
    subprocess.run(arguments, check=True, timeout=TIMEOUT_S)
    assert files_of(target) == expected


@pytest.mark.promise("S66", "S67")
def test_a_task_is_killed(source: Path, expected: dict[str, bytes], tmp_path: Path) -> None:
    """Tasks run in any order, as in an array of Slurm, and one of them twice at the same time."""
    target, plan = tmp_path / "set", tmp_path / "plan"
    assert command("cluster", "plan", "-q", plan, *options(), source, target).status == 0
    task = program("cluster", "run", "-q", plan, "--task", "1/3")
    assert run_and_kill(task, target) == -signal.SIGKILL
    twice = [subprocess.Popen(task, start_new_session=True) for _ in range(2)]
    for number in (2, 0):
        assert command("cluster", "run", "-q", plan, "--task", f"{number}/3").status == 0
    assert [process.wait(TIMEOUT_S) for process in twice] == [0, 0]
    assert command("cluster", "commit", "-q", plan).status == 0
    assert files_of(target) == expected
