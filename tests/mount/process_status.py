"""The privileges of all threads of a process, and its open files, from /proc."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from pathlib import Path

from tests.mount.waiting import of_threads

CAP_DAC_OVERRIDE, CAP_SYS_ADMIN = 1, 21
FIELDS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")


def privileges(pid: int) -> dict[str, set[int]]:
    """Return each field's values over all threads: only one if the threads are alike."""
    found: dict[str, set[int]] = {field: set() for field in FIELDS}
    for status in of_threads(pid, "status"):
        told = dict(re.findall(r"^(\w+):\s*(\w+)$", status, re.MULTILINE))
        for field in FIELDS:
            found[field].add(int(told[field], 16))
    return found


def open_files(pid: int) -> Counter[str]:
    """Count its descriptors by file, or by kind ("pipe", "socket", "[eventfd]")."""
    return Counter(
        re.sub(r"^anon_inode:|:\[\d+\]$", "", name) for name in descriptors(pid).values()
    )


def descriptors(pid: int) -> dict[int, str]:
    """Return its descriptors, each with its link in /proc; some closed meanwhile may be missing."""
    found = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found[int(entry.name)] = os.readlink(entry)
    return found
