"""`ffrfs run` with programs that start others: torchrun's ranks; and with resumed loaders."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# There, a missing torch is a failure: all that follows imports it.
if not os.environ.get("CI"):
    pytest.importorskip("torch.utils.data", reason="torch is not here: pip install ffrfs[torch]")

from ffrfs.mount.client import control_client
from tests.adapters.torch.hint_mount import wait_until
from tests.adapters.torch.program_run import TORCH_PROGRAMS, run_module
from tests.adapters.torch.test_run import COUNT, ENVIRONMENT, RUN, TIMEOUT_S, root, source

__all__ = ["root", "source"]  # fixtures

RANKS, BATCH = 2, 4
SCRIPTS = Path(__file__).parent
TORCHRUN = str(Path(sys.executable).with_name("torchrun"))
MODULE = [sys.executable, "-m", "torch.distributed.run"]

pytestmark = TORCH_PROGRAMS


def coverage(root: str) -> Any:
    return control_client.ask(root, "coverage", mark=0)


def run(words: list[str], *gates: tuple[Path, Callable[[], bool]]) -> str:
    """The output of a program; each gate is a file, made when a condition holds."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words,
        **{"env": ENVIRONMENT, "text": True, "stdout": pipe, "stderr": pipe},
        start_new_session=True,
    ) as process:
        try:
            for go, is_open in gates:
                wait_until(lambda is_open=is_open: process.poll() is not None or is_open())
                go.touch()
            output, errors = process.communicate(timeout=TIMEOUT_S)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # its ranks are in its group
            raise
    assert process.returncode == 0, errors
    assert "ffrfs:" not in errors
    return output


def launch(folder: str, go: Path) -> list[str]:
    # Without a directory for its logs, torchrun makes one in /tmp, and leaves it.
    ranks = ["--standalone", "--nproc-per-node", str(RANKS), "--log-dir", str(go.parent)]
    return [*ranks, str(SCRIPTS / "distributed_script.py"), folder, "2", str(go)]


@pytest.fixture(scope="module")
def plain(source: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the ranks print without hints."""
    go = tmp_path_factory.mktemp("plain") / "go"
    return sorted(run([TORCHRUN, *launch(str(source), go)], (go, lambda: True)).splitlines())


@pytest.mark.parametrize("begin", [[TORCHRUN], MODULE], ids=["torchrun", "module"])
def test_ranks(root: str, plain: list[str], tmp_path: Path, begin: list[str]) -> None:
    """Each rank hints at its own share, in its order, and gets the same batches."""
    go = tmp_path / "go"
    said = run(
        [*RUN, *begin, *launch(root, go)],
        (go, lambda: coverage(root)["hinted_once"] == COUNT),
    )
    assert sorted(said.splitlines()) == plain
    wait_until(lambda: len(coverage(root)["orders"]) == RANKS)
    assert {each["sha256"] for each in coverage(root)["orders"]} == {
        line.split()[-1] for line in plain
    }


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader(root: str, tmp_path: Path, workers: int) -> None:
    """Both loaders, the one that saves its state and the one that goes on, give hints."""
    pytest.importorskip("torchdata.stateful_dataloader")
    how = [root, str(workers), str(tmp_path / "go"), str(tmp_path / "state")]
    go1, go2 = tmp_path / "go1", tmp_path / "go2"
    go1.touch()
    go2.touch()
    plain = run_module("resumed_script", *how)
    go1.unlink()
    go2.unlink()
    left = COUNT - 4 * BATCH  # behind the four batches that were given
    said = run(
        [*RUN, sys.executable, "-m", "tests.adapters.torch.resumed_script", *how],
        (go1, lambda: coverage(root)["hinted_once"] == COUNT),
        (go2, lambda: coverage(root)["hinted_more"] == left),
    )
    assert said == plain
