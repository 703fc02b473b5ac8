"""Runs a program that has workers of its own, and ends all of them.

run() starts an interpreter; run_module() and run_script() fork a process that has imported torch,
which takes a second and a half. That process is multiprocessing's fork server (conftest.py).
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

TIMEOUT_S = 90.0

# One program at a time: each start of torch takes two seconds of a core.
TORCH_PROGRAMS = pytest.mark.xdist_group("programs of torch")


def run(*command: str) -> str:
    """Return the program's output. It and its workers end in time, even if one of them hangs."""
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
    """Return what main() of a module of tests/adapters/torch prints, given these words."""
    return run_forked(_main, name, *words)


def run_script(path: Path, *words: str, environment: Mapping[str, str] | None = None) -> str:
    """Return what a script prints that runs as the main program."""
    return run_forked(_script, str(path), *words, environment=environment)


def run_forked(
    function: Callable[..., object], *words: str, environment: Mapping[str, str] | None = None
) -> str:
    with tempfile.TemporaryDirectory() as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        process = multiprocessing.get_context("forkserver").Process(
            target=_become,
            args=(str(output), str(errors), dict(environment or {}), function, words),
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


def _become(
    output: str,
    errors: str,
    environment: dict[str, str],
    function: Callable[..., object],
    words: tuple[str, ...],
) -> None:
    os.setsid()
    os.environ.update(environment)
    # As in a new process; else its workers come from another fork server, which imports torch.
    multiprocessing.set_start_method(None, force=True)
    tempfile.tempdir = None
    for standard, path in ((1, output), (2, errors)):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(fd, standard)
        os.close(fd)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    function(*words)


def _main(name: str, *words: str) -> None:
    importlib.import_module(f"{__package__}.torch.{name}").main(*words)


def _script(path: str, *words: str) -> None:
    sys.argv = [path, *words]
    sys.path.insert(0, os.path.dirname(path))
    runpy.run_path(path, run_name="__main__")
