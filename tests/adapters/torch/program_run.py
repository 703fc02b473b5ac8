"""Runs a program that has workers of its own, and ends all of them."""

from __future__ import annotations

import os
import signal
import subprocess

TIMEOUT_S = 90.0


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
