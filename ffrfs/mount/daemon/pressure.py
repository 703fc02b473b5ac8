"""The memory pressure of the machine, or of the control group of this process.

The kernel tells the share of time in which tasks stalled for want of memory (PSI): in
`memory.pressure` of the control group under cgroup v2, otherwise, for the whole machine, in
/proc/pressure/memory. A service manager may name another file ($MEMORY_PRESSURE_WATCH,
systemd's); /dev/null there means: do not look.

The file is read regularly, which any user may do. The kernel could notify us instead, but
before Linux 6.5 that takes a capability that the daemon does not keep.

Concurrency: one task. A read waits for nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from ffrfs.mount.daemon.control_group import unified_group

WATCH_VARIABLE = "MEMORY_PRESSURE_WATCH"
SYSTEM_FILE = "/proc/pressure/memory"
_SIZE_MAX = 4096
_AVERAGE = re.compile(rb"^some avg10=([0-9]{1,3}\.[0-9]{2}) ", re.MULTILINE)


class Pressure:
    """The first of these files that can be opened, or none if the kernel has no PSI."""

    def __init__(self) -> None:
        self._fd: int | None = None
        self.path: str | None = None
        for path in _candidates(os.environ):
            try:
                self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                continue
            self.path = path
            break

    def percent(self) -> float | None:
        """Return the percentage of the last ten seconds with a stalled task; None: unknown."""
        if self._fd is None:
            return None
        try:
            text = os.pread(self._fd, _SIZE_MAX, 0)
        except OSError:  # PSI is switched off, or the group has gone
            return None
        found = _AVERAGE.search(text)
        return float(found[1]) if found else None

    def close(self) -> None:
        """Close the file; percent() is unknown from now on. May be called again."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None


def _candidates(environment: Mapping[str, str]) -> Iterator[str]:
    if watched := environment.get(WATCH_VARIABLE):
        yield watched
        return
    if group := unified_group():
        yield f"{group.folder}/memory.pressure"
    yield SYSTEM_FILE
