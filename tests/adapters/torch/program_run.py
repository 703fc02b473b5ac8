"""Runs a program that has workers of its own, and ends all of them.

run() starts an interpreter; run_module() takes a fork of a process that has imported torch, which
takes a second and a half. That process is multiprocessing's fork server (conftest.py).
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

TIMEOUT_S = 90.0

# One program at a time: each start of torch takes two seconds of a core.
TORCH_PROGRAMS = pytest.mark.xdist_group("programs of torch")


def run(*command: str) -> str:
    """The program's output; it ends in time, whatever hangs in it, with all its workers."""
    process = subprocess.Popen(
        command,
        env=os.environ | {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=TIMEOUT_S)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)  # its workers are in its group
        process.communicate()
        raise
    assert process.returncode == 0, errors
    return output


def run_module(name: str, *words: str) -> str:
    """The same of what main() of a module beside this one prints, with these words."""
    with tempfile.TemporaryDirectory() as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        process = multiprocessing.get_context("forkserver").Process(
            target=_become, args=(name, words, str(output), str(errors))
        )
        process.start()
        try:
            process.join(TIMEOUT_S)
            assert process.exitcode == 0, errors.read_text()
        finally:
            if process.is_alive():
                assert process.pid is not None
                os.killpg(process.pid, signal.SIGKILL)
                process.join()
        return output.read_text()


def _become(name: str, words: tuple[str, ...], output: str, errors: str) -> None:
    os.setsid()
    for standard, path in ((1, output), (2, errors)):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(fd, standard)
        os.close(fd)
    import torch

    torch.set_num_threads(1)
    importlib.import_module(f"{__package__}.{name}").main(*words)
