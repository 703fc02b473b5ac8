"""A disk of known latency below all contenders: slow_disk.c, compiled and mounted.

Each measurement has a mount of its own, so the kernel holds no page of what lies on it; the
files themselves, on the machine's own disk, are to be page-cached. What was read is counted.
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
DEPTH = 64  # reads that it serves at once
_COUNTS = struct.Struct("=QQQ")


@dataclass(frozen=True)
class Counts:
    """Since it was mounted."""

    reads: int
    size_bytes: int
    deepest: int  # the most reads at once


@dataclass(frozen=True)
class SlowDisk:
    program: Path
    folder: Path  # what it shows
    mountpoint: Path

    @contextlib.contextmanager
    def mounted(self) -> Iterator[Path]:
        """Its root, with nothing cached."""
        command = [self.program, self.folder, self.mountpoint, self._counts]
        amounts = [str(LATENCY_US), str(DEPTH)]
        with mounts.served([*command, *amounts], self.mountpoint) as mount:
            yield mount.root

    def counts(self) -> Counts:
        """Does not touch the mount."""
        return Counts(*_COUNTS.unpack(self._counts.read_bytes()))

    @property
    def _counts(self) -> Path:
        return self.mountpoint.with_name("slow-disk.counts")


def compile_program(output: Path) -> None:
    """RuntimeError says what is missing."""
    if not shutil.which("cc") or not shutil.which("pkg-config"):
        raise RuntimeError("there is no cc, or no pkg-config")
    flags = measure.run(["pkg-config", "--cflags", "--libs", "fuse3"], TIMEOUT_S).split()
    measure.run(["cc", "-O2", "-pthread", "-o", output, SOURCE, *flags], TIMEOUT_S)
