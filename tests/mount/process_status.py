"""What /proc tells of a process's privileges, of every thread of it, and what it has open."""

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
    """Of each field its values, over all threads: one, if they are alike."""
    found: dict[str, set[int]] = {field: set() for field in FIELDS}
    for status in of_threads(pid, "status"):
        told = dict(re.findall(r"^(\w+):\s*(\w+)$", status, re.MULTILINE))
        for field in FIELDS:
            found[field].add(int(told[field], 16))
    return found


def open_files(pid: int) -> Counter[str]:
    """How many of its descriptors are which file, or kind ("pipe", "socket", "[eventfd]")."""
    return Counter(
        re.sub(r"^anon_inode:|:\[\d+\]$", "", name) for name in descriptors(pid).values()
    )


def descriptors(pid: int) -> dict[int, str]:
    """Its descriptors, and what they are; those that it closes meanwhile may be left out."""
    found = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found[int(entry.name)] = os.readlink(entry)
    return found
