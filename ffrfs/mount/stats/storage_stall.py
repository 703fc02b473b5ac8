"""Detects that storage has stopped answering: reads wait for it, and no byte comes.

A disk that hangs blocks only the readers of bytes that are not in memory: the daemon and the
mount still answer other requests. So `ffrfs check` looks at this.

Concurrency: a task of the daemon's trio loop, and callers in that loop.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from ffrfs.mount.engines.counter_page import Counters, first_value
from ffrfs.mount.engines.tick import tick


class StorageStall:
    """The stalls of storage, by an engine's counters."""

    def __init__(
        self, counters: Callable[[], Counters], clock: Callable[[], float] = trio.current_time
    ) -> None:
        self._counters = counters
        self._clock = clock
        self._bytes_storage = -1
        self._began_s: float | None = None  # None: no read waited at the last look

    async def run(self) -> None:
        """Look regularly until cancelled."""
        while True:
            self.look()
            await trio.sleep_until(tick())

    def look(self) -> float:
        """Return for how many seconds reads have been seen to wait in vain."""
        counters, now_s = self._counters(), self._clock()
        bytes_storage = first_value(counters, "bytes_storage")
        if not any(counters.get("queue_depth", ())):
            self._began_s = None
        elif self._began_s is None or bytes_storage != self._bytes_storage:
            self._began_s = now_s
        self._bytes_storage = bytes_storage
        return 0.0 if self._began_s is None else now_s - self._began_s
