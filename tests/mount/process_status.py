"""What /proc tells of a process's privileges, of every thread of it, and what it has open."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

CAP_DAC_OVERRIDE, CAP_SYS_ADMIN = 1, 21
FIELDS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")


def privileges(pid: int) -> dict[str, set[int]]:
    """Of each field its values, over all threads: one, if they are alike."""
    found: dict[str, set[int]] = {field: set() for field in FIELDS}
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        told = dict(re.findall(r"^(\w+):\s*(\w+)$", status.read_text(), re.MULTILINE))
        for field in FIELDS:
            found[field].add(int(told[field], 16))
    return found


def open_files(pid: int) -> Counter[str]:
    """What its descriptors are: paths, or kinds ("pipe", "socket", "[eventfd]")."""
    found: Counter[str] = Counter()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        name = os.readlink(entry)
        found[re.sub(r"^anon_inode:|:\[\d+\]$", "", name)] += 1
    return found
