"""`ffrfs prefetch`: tells a mount the order of reading at the moment when the reading begins.

The order goes through a FIFO that the command opened before: the command's start does not count,
and the mount has no head start. reader.py uses this; the command is in its process group.
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
    """Yield a file for the hints: each line is a name below `root`.

    The command has to succeed after the block. Otherwise RuntimeError has its complaint.
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
                # If the command has ended early, its status is looked at below.
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
    """Open the FIFO for writing when the reader has opened it; None: the reader has ended."""
    deadline = time.monotonic() + TIMEOUT_S
    while reader.poll() is None:
        try:
            fd = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # ENXIO: no reader yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            os.set_blocking(fd, True)
            return fd
    return None
