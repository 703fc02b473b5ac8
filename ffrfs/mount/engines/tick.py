"""The times at which a daemon looks at something regularly: common ones, so that it wakes once.

An idle machine may have hundreds of mounts, and each wakeup costs.

Concurrency: callers in the daemon's trio loop.
"""

from __future__ import annotations

import math

import trio

TICK_S = 2.5
_LATE_S = 0.1  # how late a look may come, and the next one still at its time


def tick(time_s: float = TICK_S / 2) -> float:
    """Return the first common time in `time_s` seconds or later, as of trio.current_time()."""
    return TICK_S * math.ceil((trio.current_time() + time_s - _LATE_S) / TICK_S)
