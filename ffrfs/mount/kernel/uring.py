"""FUSE over io_uring, as far as the machine decides on it: whether the kernel offers it to new
mounts, how to switch it on, and how many queues a mount has.

Not here: the rings themselves (native/fuse). No state: safe from any thread.
"""

from __future__ import annotations

import os
import re

PARAMETER = "/sys/module/fuse/parameters/enable_uring"
HOW_TO_ENABLE = (
    f"FUSE over io_uring is off in this kernel; on Linux 6.14 or newer root switches it on: "
    f"echo Y > {PARAMETER}, or for good: options fuse enable_uring=1 in "
    "/etc/modprobe.d/ffrfs.conf"
)
_POSSIBLE_CPUS = "/sys/devices/system/cpu/possible"

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def is_enabled(parameter: str = PARAMETER) -> bool:
    """Return whether the kernel offers it to a mount that is made now."""
    try:
        with open(parameter, encoding="ascii") as file:
            return file.read(2).strip() == "Y"
    except (OSError, UnicodeDecodeError):
        return False


def queue_count(possible_cpus: str = _POSSIBLE_CPUS) -> int:
    """Return how many queues the kernel wants: one for each possible CPU."""
    try:
        with open(possible_cpus, encoding="ascii") as file:
            return count_cpus(file.read())
    except (OSError, ValueError):
        return os.cpu_count() or 1


def count_cpus(text: str) -> int:
    """Return the number of CPUs in a list of the kernel's: "0-3,8\\n" has 5. Raises ValueError."""
    count = 0
    for word in text.strip().split(","):
        found = _RANGE.fullmatch(word)
        if found is None:
            raise ValueError(f"not a list of CPUs: {text!r}")
        first, last = int(found[1]), int(found[2] or found[1])
        count += max(last - first + 1, 0)
    return count
