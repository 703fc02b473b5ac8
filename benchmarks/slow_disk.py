"""A disk of known latency below all contenders: slow_disk.c, compiled and mounted.

Each measurement has a mount of its own, so the kernel holds no page of the files on it. The
files themselves, on the machine's own disk, should be page-cached. The disk counts all reads.
"""

from __future__ import annotations

import contextlib
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import measure, mounts

TIMEOUT_S = 60
SOURCE = Path(__file__).with_name("slow_disk.c")
LATENCY_US = 1000
DEPTH = 64  # reads served at once
_COUNTS = struct.Struct("=QQQ")


@dataclass(frozen=True)
class Counts:
    """Counts since the disk was mounted."""

    reads: int
    size_bytes: int
    deepest: int  # the most reads at once


@dataclass(frozen=True)
class SlowDisk:
    program: Path
    folder: Path  # its files are those of the disk
    mountpoint: Path

    @contextlib.contextmanager
    def mounted(self) -> Iterator[Path]:
        """Yield the root of a fresh mount, with nothing cached."""
        command = [self.program, self.folder, self.mountpoint, self._counts]
        amounts = [str(LATENCY_US), str(DEPTH)]
        with mounts.served([*command, *amounts], self.mountpoint) as mount:
            yield mount.root

    def counts(self) -> Counts:
        """Return the counts, without touching the mount."""
        return Counts(*_COUNTS.unpack(self._counts.read_bytes()))

    @property
    def _counts(self) -> Path:
        return self.mountpoint.with_name("slow-disk.counts")


def compile_program(output: Path) -> None:
    """Compile slow_disk.c; RuntimeError says what is missing."""
    if not shutil.which("cc") or not shutil.which("pkg-config"):
        raise RuntimeError("there is no cc, or no pkg-config")
    flags = measure.run(["pkg-config", "--cflags", "--libs", "fuse3"], TIMEOUT_S).split()
    measure.run(["cc", "-O2", "-pthread", "-o", output, SOURCE, *flags], TIMEOUT_S)
