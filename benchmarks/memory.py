"""Memory of the processes that serve a mount.

It is the proportional set size (PSS): a page that several processes share is divided among
them, so the sum over a daemon and its worker counts nothing twice. The kernel keeps no peak of
it, but one of the resident set size (VmHWM), which counts shared pages for each process.

For one process it is the private memory, by the kernel's count of each mapping. A page of a
file that no other process has mapped counts as private there, though the kernel can take it
back. So share() counts the mappings of one file separately.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import NamedTuple

WORKER = "ffrfs-worker"  # the name that the kernel has for it
_MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+ *(.*)")

_ENDED = (FileNotFoundError, ProcessLookupError)  # the process has ended since it was listed


class Share(NamedTuple):
    private_bytes: int  # Private_* of all mappings but the file's
    mapped_bytes: int  # Rss of the file's mappings


def resident_bytes(pid: int) -> int:
    """Return the PSS of this process and of all its descendants together."""
    return sum(map(_proportional_bytes, _family(pid)))


def cpu_seconds(pid: int) -> float:
    """Return the processor time that this process and all its descendants have used so far."""
    # The scheduler counts nanoseconds; the usual count is in hundredths of a second.
    total_ns = 0
    for member in _family(pid):
        for thread in _threads(member):
            with contextlib.suppress(*_ENDED):
                total_ns += int((thread / "schedstat").read_text().split()[0])
    return total_ns / 1e9


def machine_cpu_seconds() -> float:
    """Return the processor time of the whole machine so far, in steps of 1/100 s as in proc(5)."""
    ticks = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]))
    idle, io_wait = ticks[3:5]
    return (sum(ticks) - idle - io_wait) / os.sysconf("SC_CLK_TCK")


def peak_bytes(pid: int) -> int:
    """Return the VmHWM of this process and of all its descendants together."""
    return sum(_field_bytes(member, "status", "VmHWM:") for member in _family(pid))


class Peak:
    """The largest peak_bytes() of a program; to be called while the program runs."""

    def __init__(self) -> None:
        self.size_bytes = 0

    def __call__(self, pid: int) -> None:
        # A process may have ended since it was listed.
        with contextlib.suppress(OSError, RuntimeError):
            self.size_bytes = max(self.size_bytes, peak_bytes(pid))


def worker_of(daemon: int) -> int:
    """Return the process that answers the kernel for a mount by the native engine."""
    for pid in _family(daemon):
        if Path(f"/proc/{pid}/comm").read_text().strip() == WORKER:
            return pid
    raise RuntimeError(f"process {daemon} has no child {WORKER}")


def share(pid: int, file: Path) -> Share:
    """Return the memory that this process holds alone, and that of its mappings of `file`."""
    private_bytes = mapped_bytes = 0
    path, real = "", file.resolve()
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if mapping := _MAPPING.fullmatch(line):
            path = mapping[1]
            continue
        field, _, rest = line.partition(":")
        if path == str(real):
            mapped_bytes += _size_bytes(rest) if field == "Rss" else 0
        elif field in ("Private_Clean", "Private_Dirty", "Private_Hugetlb"):
            private_bytes += _size_bytes(rest)
    return Share(private_bytes, mapped_bytes)


def _family(pid: int) -> list[int]:
    found = [pid]
    for task in _threads(pid):
        with contextlib.suppress(*_ENDED):
            for child in (task / "children").read_text().split():
                found += _family(int(child))
    return found


def _threads(pid: int) -> list[Path]:
    """Return the threads' directories of proc(5): none if the process has ended meanwhile."""
    with contextlib.suppress(*_ENDED):
        return list(Path(f"/proc/{pid}/task").iterdir())
    return []


def _proportional_bytes(pid: int) -> int:
    return _field_bytes(pid, "smaps_rollup", "Pss:")


def _field_bytes(pid: int, file: str, field: str) -> int:
    for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(field):
            return _size_bytes(line.removeprefix(field))
    raise RuntimeError(f"/proc/{pid}/{file} has no {field}")


def _size_bytes(text: str) -> int:
    """Return the bytes of a text like "  1234 kB"."""
    return int(text.split(maxsplit=1)[0]) * 1024
