"""`ffrfs run` with a program that starts others (torchrun's ranks), and with a resumed loader."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ffrfs.mount.client import control_client
from tests.adapters.program_run import TORCH_PROGRAMS, run_module
from tests.adapters.torch.distributed_script import BATCH, RANKS
from tests.adapters.torch.hint_mount import wait_until
from tests.adapters.torch.test_run import COUNT, ENVIRONMENT, RUN, TIMEOUT_S, root, source

__all__ = ["root", "source"]  # fixtures

SCRIPT = str(Path(__file__).with_name("distributed_script.py"))
TORCHRUN = str(Path(sys.executable).with_name("torchrun"))

pytestmark = TORCH_PROGRAMS


def coverage(root: str) -> Any:
    return control_client.ask(root, "coverage", mark=0)


def run(words: list[str], *gates: tuple[Path, Callable[[], bool]]) -> str:
    """Return the output of a program. Each gate is a file, made when its condition holds."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words,
        **{"env": ENVIRONMENT, "text": True, "stdout": pipe, "stderr": pipe},
        start_new_session=True,
    ) as process:
        try:
            for go, is_open in gates:
                # Ask rarely: a request takes CPU time, and the ranks import torch for seconds.
                wait_until(lambda is_open=is_open: process.poll() is not None or is_open(), 0.3)
                go.touch()
            output, errors = process.communicate(timeout=TIMEOUT_S)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # its ranks are in its group
            raise
    assert process.returncode == 0, errors
    assert "ffrfs:" not in errors
    return output


def without_hints(source: Path, place: Path) -> list[str]:
    """Return the lines that the ranks print."""
    (place / "gone").touch()
    how = ["distributed_script", str(source), "1", str(place / "gone")]
    with ThreadPoolExecutor() as threads:
        ranks = [
            threads.submit(run_module, *how, str(rank), str(place / "meeting"))
            for rank in range(RANKS)
        ]
    return [line for rank in ranks for line in rank.result().splitlines()]


def test_ranks(root: str, source: Path, tmp_path: Path) -> None:
    """Each rank hints at its own share, in its order, and gets the same batches."""
    go = tmp_path / "go"
    # Without a directory for its logs, torchrun makes one in /tmp, and does not remove it.
    ranks = ["--standalone", "--nproc-per-node", str(RANKS), "--log-dir", str(tmp_path)]
    said = run(
        [*RUN, TORCHRUN, *ranks, SCRIPT, root, "1", str(go)],
        (go, lambda: coverage(root)["hinted_once"] == COUNT),
    )
    plain = without_hints(source, tmp_path)
    assert sorted(said.splitlines()) == plain
    wait_until(lambda: len(coverage(root)["orders"]) == RANKS)
    assert {each["sha256"] for each in coverage(root)["orders"]} == {
        line.split()[-1] for line in plain
    }


def test_a_stateful_loader(root: str, tmp_path: Path) -> None:
    """Both loaders, the one that saves its state and the one that goes on, give hints."""
    pytest.importorskip("torchdata.stateful_dataloader")
    how = [root, "1", str(tmp_path / "go"), str(tmp_path / "state")]
    go1, go2 = tmp_path / "go1", tmp_path / "go2"
    go1.touch()
    go2.touch()
    plain = run_module("resumed_script", *how)
    go1.unlink()
    go2.unlink()
    left = COUNT - 4 * BATCH  # after the four batches that were given
    said = run(
        [*RUN, sys.executable, "-m", "tests.adapters.torch.resumed_script", *how],
        (go1, lambda: coverage(root)["hinted_once"] == COUNT),
        (go2, lambda: coverage(root)["hinted_more"] == left),
    )
    assert said == plain
