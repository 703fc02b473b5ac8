"""A thread that truncates a file at random places and restores it, again and again.

    with cutting(path) as cut:
        cut.wait(300)     # until this has happened 300 times

At the end the file is as it was.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

# The pause lets readers see the file in each state.
_PAUSE_S = 0.003


class Cutting:
    """Truncates and restores one file; `count` is how often it has done so."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR)
        self._content = path.read_bytes()
        self._chance = random.Random(0)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.count = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        os.close(self._fd)

    def wait(self, count: int, timeout_s: float = 60) -> None:
        end = time.monotonic() + timeout_s
        while self.count < count:
            assert time.monotonic() < end
            time.sleep(0.01)

    def _run(self) -> None:
        while not self._is_over.is_set():
            os.ftruncate(self._fd, self._chance.randrange(len(self._content)))
            time.sleep(_PAUSE_S)
            # Zeros come first in place of the bytes.
            os.ftruncate(self._fd, len(self._content))
            os.pwrite(self._fd, self._content, 0)
            time.sleep(_PAUSE_S)
            self.count += 1


@contextlib.contextmanager
def cutting(path: Path) -> Iterator[Cutting]:
    """Truncate and restore the file while the block runs."""
    made = Cutting(path)
    made.start()
    try:
        yield made
    finally:
        made.stop()
