"""Memory of the processes that serve a mount.

The proportional set size (PSS): a page that several processes share is divided among them,
so the sum over a daemon and its worker counts nothing twice.
"""

from __future__ import annotations

from pathlib import Path


def resident_bytes(pid: int) -> int:
    """PSS of this process and of all its descendants together."""
    return sum(map(_proportional_bytes, _family(pid)))


def _family(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += _family(int(child))
    return found


def _proportional_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/{pid}/smaps_rollup has no Pss")
