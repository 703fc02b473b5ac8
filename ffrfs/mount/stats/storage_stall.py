"""Whether storage has stopped answering: reads wait for it, and no byte comes.

A disk that hangs holds up the readers of what is not in memory, and nothing else: the daemon
and the mount still answer questions. So `ffrfs check` asks for this.

Concurrency: a task of the daemon's trio loop, and what asks there.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from ffrfs.mount.engines.counter_page import Counters

_INTERVAL_S = 2.5  # a machine that does nothing is hardly woken


class StorageStall:
    """Of an engine, by its counters."""

    def __init__(
        self, counters: Callable[[], Counters], clock: Callable[[], float] = trio.current_time
    ) -> None:
        self._counters = counters
        self._clock = clock
        self._bytes_storage = -1
        self._began_s: float | None = None  # None: nothing waited when it was looked at last

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self.look()
            await trio.sleep(_INTERVAL_S)

    def look(self) -> float:
        """For how many seconds reads have been seen to wait in vain."""
        counters, now_s = self._counters(), self._clock()
        bytes_storage = next(iter(counters.get("bytes_storage", ())), 0)
        if not any(counters.get("queue_depth", ())):
            self._began_s = None
        elif self._began_s is None or bytes_storage != self._bytes_storage:
            self._began_s = now_s
        self._bytes_storage = bytes_storage
        return 0.0 if self._began_s is None else now_s - self._began_s
