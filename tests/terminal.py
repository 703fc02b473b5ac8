"""A terminal of the test's own, and what a program shows on it."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

TIMEOUT_S = 60

# The size of a terminal if none was set, such as that of script(1) without another terminal.
UNKNOWN_SIZE = (0, 0)


def run_on_terminal(*arguments: str | Path, size: tuple[int, int] = (24, 200)) -> bytes:
    """Run Python with a terminal of `size` (rows, columns) for stdout and stderr.

    Returns all of its output. The test fails unless Python succeeds within TIMEOUT_S.
    """
    ours, theirs = pty.openpty()
    try:
        termios.tcsetwinsize(theirs, size)
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
    finally:
        os.close(theirs)
    try:
        output = _read_all(ours, time.monotonic() + TIMEOUT_S)
        assert process.wait(TIMEOUT_S) == 0, output
        return output
    finally:
        os.close(ours)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _read_all(terminal: int, end_s: float) -> bytes:
    output = b""
    while True:
        left_s = max(0.0, end_s - time.monotonic())
        assert select.select([terminal], [], [], left_s)[0], f"does not end: {output!r}"
        try:
            output += os.read(terminal, 65536)
        except OSError:  # EIO: the other side is closed
            return output
