"""Real control groups for a test, of either version; skips it where none can be made."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mount.command import wait_until

MIB = 1 << 20
UNIFIED = [Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")]  # hybrid, or v2 alone


class MemoryGroup:
    """A group with a memory limit, which limit() sets."""

    def __init__(self, folder: Path, limit_file: str) -> None:
        self.folder = folder
        self._limit = folder / limit_file

    def limit(self, size_mb: int) -> None:
        self._limit.write_text(str(size_mb * MIB))

    def kills(self) -> int:
        """Return how many of its processes the kernel has killed because memory ran out."""
        told = "memory.oom_control" if self._limit.name.startswith("memory.limit") else ""
        text = (self.folder / (told or "memory.events")).read_text()
        return int(re.findall(r"^oom_kill (\d+)$", text, re.MULTILINE)[0])


def legacy_memory_group() -> str | None:
    """Return our group in version 1's memory tree, or None if version 2 controls memory."""
    own = Path("/proc/self/cgroup").read_text()
    line = next((line for line in own.splitlines() if ":memory:" in line), None)
    return line and line.split(":")[2]


@contextlib.contextmanager
def memory_group() -> Iterator[MemoryGroup]:
    name = f"ffrfs-test-{os.getpid()}"
    legacy = legacy_memory_group()
    if legacy is None:
        top = next((top for top in UNIFIED if (top / "cgroup.procs").exists()), UNIFIED[-1])
        group = MemoryGroup(top / name, "memory.max")
    else:
        group = MemoryGroup(Path(f"/sys/fs/cgroup/memory{legacy}/{name}"), "memory.limit_in_bytes")
    with new_groups(group.folder):
        try:
            group.limit(1024)
        except OSError as error:
            pytest.skip(f"no control group can be limited here: {error}")
        yield group


@contextlib.contextmanager
def new_groups(*folders: Path) -> Iterator[None]:
    made: list[Path] = []
    try:
        for folder in folders:
            try:
                folder.mkdir()
            except OSError as error:
                pytest.skip(f"control groups cannot be made here: {error}")
            made.append(folder)
        yield
    finally:
        for folder in reversed(made):
            wait_until(lambda folder=folder: is_removed(folder), f"{folder} is empty")


def is_removed(folder: Path) -> bool:
    with contextlib.suppress(OSError):  # somebody is still in it
        folder.rmdir()
    return not folder.exists()


def joining(*folders: Path) -> list[str]:
    """Return the words before a command that let it join these groups first."""
    join = "".join(f"echo $$ > {folder}/cgroup.procs; " for folder in folders)
    return ["sh", "-c", f'{join}exec "$@"', "sh"]
