"""Runs the command in this process, which is fast enough to try everything."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.ffrecord_file import Tree
from tests.interpreter import python

TIMEOUT_S = 120

TREE: Tree = {
    "a": {"b": {"deep.txt": b"deep\n"}, "large": bytes(range(256)) * 8192, "é": b"2"},
    "empty": {},
    "nothing": b"",
    "z.txt": b"last\n",
}


@dataclass
class Done:
    """A command that has ended."""

    status: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.decode().splitlines()

    @property
    def said(self) -> list[str]:
        """The lines of a command that succeeded without a complaint."""
        assert (self.status, self.err) == (0, "")
        return self.lines

    @property
    def complaint(self) -> str:
        """The one line of a command that failed and printed nothing else."""
        assert (self.status, self.out, self.err.count("\n")) == (1, b"", 1), self.err
        assert self.err.startswith("ffrfs: ")
        return self.err.removeprefix("ffrfs: ").removesuffix("\n")


Run = Callable[..., Done]


@contextlib.contextmanager
def running(*arguments: str | Path, **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command as a process, which is killed at the end of the block."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(
        [sys.executable, "-m", "ffrfs", *map(str, arguments)],
        env={**os.environ, "PYTHONUNBUFFERED": ""},
        **pipes | how,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def peak_kb(*arguments: str | Path, cwd: Path) -> int:
    """Run the command, which must succeed; return its peak memory."""
    program = (
        "import re, sys; from ffrfs.cli.main import main; status = main(sys.argv[1:]); "
        "print(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1]); "
        "sys.exit(status)"
    )
    done = python("-c", program, *arguments, cwd=cwd, timeout=TIMEOUT_S, text=False)
    assert (done.returncode, done.stderr) == (0, b""), arguments
    return int(done.stdout)
