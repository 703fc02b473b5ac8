"""Memory of the processes that serve a mount.

The proportional set size (PSS): a page that several processes share is divided among them,
so the sum over a daemon and its worker counts nothing twice. The kernel keeps no peak of it,
but one of the resident set size (VmHWM), in which what is shared counts for each of them.
"""

from __future__ import annotations

from pathlib import Path


def resident_bytes(pid: int) -> int:
    """PSS of this process and of all its descendants together."""
    return sum(map(_proportional_bytes, _family(pid)))


def peak_bytes(pid: int) -> int:
    """VmHWM of this process and of all its descendants together."""
    return sum(_field_bytes(member, "status", "VmHWM:") for member in _family(pid))


def _family(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += _family(int(child))
    return found


def _proportional_bytes(pid: int) -> int:
    return _field_bytes(pid, "smaps_rollup", "Pss:")


def _field_bytes(pid: int, file: str, field: str) -> int:
    for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/{pid}/{file} has no {field}")
