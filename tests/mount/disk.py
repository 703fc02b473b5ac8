"""The test's side of stalling_disk.py: a disk that stalls, fails or dies on command."""

from __future__ import annotations

import contextlib
import select
import socket
from pathlib import Path

from ffrfs.mount.kernel import kernel_mount
from ffrfs.mount.kernel.mount_table import mount_at
from tests.mount.command import TIMEOUT_S
from tests.mount.preloaded import preloaded


class Disk:
    """Shows `source` as the file `pack`; `extents` has (offset, size) of its parts, by name."""

    def __init__(self, source: Path, place: Path, extents: dict[str, tuple[int, int]]) -> None:
        self._extents = extents
        self._place = place
        self.pack = place / "pack"
        place.mkdir()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = preloaded().start_program(
                "tests.mount.stalling_disk", str(source), str(place), fd=theirs.fileno()
            )
        self._lines: list[str] = []
        self.wait_for("done")

    def stall(self, name: str) -> None:
        self._order("stall", name)

    def stall_all(self, begin: int = 0) -> None:
        """Stall all reads from this offset on."""
        self._write(f"stall {begin} {1 << 60}")

    def fail(self, name: str) -> None:
        self._order("fail", name)

    def fail_all(self) -> None:
        self._write(f"fail 0 {1 << 60}")

    def slow_all(self) -> None:
        self._write(f"slow 0 {1 << 60}")

    def come_short(self) -> None:
        """Shorten the reads of its parts, but not those of the bytes around them."""
        self._order_parts("short")

    def make_trouble(self, *, everywhere: bool) -> None:
        """Let reads fail or come late at random: of its parts, or of all if `everywhere`."""
        if everywhere:
            self._write(f"trouble 0 {1 << 60}")
        else:
            self._order_parts("trouble")

    def die(self) -> None:
        """Kill the disk's process; its mount stays, and answers every request with ENOTCONN."""
        self._process.kill_group()
        self._process.wait(TIMEOUT_S)

    def go(self) -> None:
        if not self._process.has_ended():
            self._write("go")

    def refuse(self) -> None:
        """Let the reads that stall fail from now on."""
        self._write("refuse")

    def wait_for(self, word: str) -> None:
        """Wait until the disk has said this word."""
        while word not in self._lines:
            is_ready = select.select([self._socket], [], [], TIMEOUT_S)[0]
            assert is_ready, f"the disk has not said {word!r}"
            data = self._socket.recv(4096)
            assert data, "the disk has died"
            self._lines += data.decode().split("\n")
        del self._lines[: self._lines.index(word) + 1]

    def close(self) -> None:
        with contextlib.suppress(ConnectionError, AssertionError):
            self.go()
        if mount_at(str(self._place)) is not None:
            kernel_mount.detach(str(self._place))
        with self._socket, self._process:
            with contextlib.suppress(OSError, TimeoutError):
                self._socket.shutdown(socket.SHUT_WR)
                self._process.wait(5)
            self._process.kill_group()

    def _order(self, word: str, name: str) -> None:
        offset, size = self._extents[name]
        # Only the middle, so that a neighbour's readahead or alignment does not reach it.
        self._write(f"{word} {offset + size // 3} {offset + 2 * size // 3}")

    def _order_parts(self, word: str) -> None:
        begin = min(offset for offset, _ in self._extents.values())
        end = max(offset + size for offset, size in self._extents.values())
        self._write(f"{word} {begin} {end}")

    def _write(self, line: str) -> None:
        self._socket.sendall(f"{line}\n".encode())
        self.wait_for("done")
