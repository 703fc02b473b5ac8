"""The test's side of stalling_disk.py: a disk that stalls, fails or dies on command."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from pathlib import Path

from ffrfs.mount.kernel import kernel_mount
from ffrfs.mount.kernel.mount_table import mount_at
from tests.mount.command import TIMEOUT_S, kill_group


class Disk:
    """`source`, as the file `pack`; `extents`: (offset, size) of its parts, by name."""

    def __init__(self, source: Path, place: Path, extents: dict[str, tuple[int, int]]) -> None:
        self._extents = extents
        self._place = place
        self.pack = place / "pack"
        place.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("stalling_disk.py"), source, place],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._lines: list[str] = []
        self.wait_for("done")

    def stall(self, name: str) -> None:
        self._order("stall", name)

    def stall_all(self, begin: int = 0) -> None:
        """From that offset on."""
        self._write(f"stall {begin} {1 << 60}")

    def fail(self, name: str) -> None:
        self._order("fail", name)

    def fail_all(self) -> None:
        self._write(f"fail 0 {1 << 60}")

    def slow_all(self) -> None:
        self._write(f"slow 0 {1 << 60}")

    def come_short(self) -> None:
        """Reads of its parts, not of what lies around them."""
        self._order_parts("short")

    def make_trouble(self, *, everywhere: bool) -> None:
        """Reads fail and come late at random; if not `everywhere`, those of its parts."""
        if everywhere:
            self._write(f"trouble 0 {1 << 60}")
        else:
            self._order_parts("trouble")

    def die(self) -> None:
        """Its mount stays, and says ENOTCONN to all that is asked."""
        kill_group(self._process)
        self._process.wait()

    def go(self) -> None:
        if self._process.poll() is None:
            self._write("go")

    def refuse(self) -> None:
        """Let what stalls fail from now on."""
        self._write("refuse")

    def wait_for(self, word: str) -> None:
        """Wait until the disk has said that."""
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        while word not in self._lines:
            assert select.select([fd], [], [], TIMEOUT_S)[0], f"the disk has not said {word!r}"
            data = os.read(fd, 4096)
            assert data, "the disk has died"
            self._lines += data.decode().split("\n")
        del self._lines[: self._lines.index(word) + 1]

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError, AssertionError):
            self.go()
        if mount_at(str(self._place)) is not None:
            kernel_mount.detach(str(self._place))
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=5)
        if self._process.poll() is None:
            kill_group(self._process)

    def _order(self, word: str, name: str) -> None:
        offset, size = self._extents[name]
        # The middle: a neighbour's read ahead or alignment must not reach it.
        self._write(f"{word} {offset + size // 3} {offset + 2 * size // 3}")

    def _order_parts(self, word: str) -> None:
        begin = min(offset for offset, _ in self._extents.values())
        end = max(offset + size for offset, size in self._extents.values())
        self._write(f"{word} {begin} {end}")

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        self.wait_for("done")
