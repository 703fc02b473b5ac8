"""`ffrfs prefetch`: a mount is told in which order its files will be read, as the reading begins.

The order goes through a FIFO that the command has opened before: neither does its start count,
nor has the mount a head start. For reader.py, and in its process group.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from benchmarks import packers

TIMEOUT_S = 60


@contextlib.contextmanager
def listening(root: bytes) -> Iterator[IO[bytes]]:
    """Yield a file that takes the hints: a name below `root` a line.

    The command has to end well after the block. RuntimeError says what it says.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryFile("w+") as complaints,
    ):
        fifo = Path(folder) / "order"
        os.mkfifo(fifo)
        command = [*packers.FFRFS, "prefetch", os.fsdecode(root), "--from", str(fifo)]
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=complaints
        )
        try:
            fd = _when_opened(fifo, child)
            if fd is not None:
                # A command that has ended early tells by its status why.
                with contextlib.suppress(BrokenPipeError), open(fd, "wb") as order:
                    yield order
            status = child.wait(TIMEOUT_S)
        finally:
            child.kill()
            child.wait(TIMEOUT_S)
        if status or fd is None:
            complaints.seek(0)
            said = complaints.read().strip().splitlines() or ["no reason given"]
            raise RuntimeError(f"ffrfs prefetch ended with status {status}: {said[-1]}")


def _when_opened(fifo: Path, reader: subprocess.Popen[bytes]) -> int | None:
    """Open it for writing when the reader has for reading; None: it has ended before."""
    deadline = time.monotonic() + TIMEOUT_S
    while reader.poll() is None:
        try:
            fd = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # ENXIO
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            os.set_blocking(fd, True)
            return fd
    return None
