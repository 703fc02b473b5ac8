"""Runs a program on a terminal of the test's own, sends it keys, and reads what it shows."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from types import TracebackType
from typing import Any

TIMEOUT_S = 60.0
_SIZE_TOLD = 2000  # bytes of output in an error message


class LiveTerminal:
    """Runs `python ARGUMENTS` on a terminal of its own; kills it at the end of the block."""

    def __init__(
        self, *arguments: str | os.PathLike[str], size: tuple[int, int] = (24, 80)
    ) -> None:
        self._ours, self._theirs = pty.openpty()
        self.resize(*size)
        self.attributes_before = self.attributes()
        self.output = b""
        # setsid makes this the controlling terminal, whose keys send signals to the program.
        self.process = subprocess.Popen(
            ["setsid", "--ctty", sys.executable, *map(os.fspath, arguments)],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env=os.environ | {"TERM": "xterm"},
        )

    def attributes(self) -> list[Any]:
        return termios.tcgetattr(self._theirs)

    def resize(self, rows: int, columns: int) -> None:
        termios.tcsetwinsize(self._theirs, (rows, columns))

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def read_until(self, text: bytes) -> bytes:
        """Read until `text` is shown; return all that was shown since the last call."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while text not in self.output:
            assert self._read(deadline_s - time.monotonic()), f"no {text!r}: {self._last()!r}"
        end = self.output.index(text) + len(text)
        shown, self.output = self.output[:end], self.output[end:]
        return shown

    def wait(self) -> int:
        """Return the exit status, or a signal's -number; `output` then has the last output."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline_s, f"does not end: {self._last()!r}"
            self._read(0.05)
        while self._read(0):
            pass
        return self.process.returncode

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self._ours], [], [], max(timeout_s, 0))[0]:
            return False
        self.output += os.read(self._ours, 65536)
        return True

    def _last(self) -> bytes:
        return self.output[-_SIZE_TOLD:]

    def __enter__(self) -> LiveTerminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(TIMEOUT_S)
        os.close(self._ours)
        os.close(self._theirs)
