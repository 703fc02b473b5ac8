"""Counts the requests of an engine in Python, and logs the slow ones (native/worker/request_log.h).

Concurrency: one trio loop. A thread looks up the path of a slow request, because it is in an index
that may have to be read from the slow disk.
"""

from __future__ import annotations

import contextlib
import logging

import trio

from ffrfs._native import Volume

WAITING_MAX = 64  # slow requests that wait to be logged; further ones are only counted

log = logging.getLogger(__name__)


class RequestLog:
    """The requests of one volume."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        self._slow, self._next = trio.open_memory_channel[tuple[str, int, int]](WAITING_MAX)

    def note(self, kind: str, ino: object, elapsed_ns: int) -> None:
        """Note that a request was answered; if `ino` is no number, it is only counted."""
        if self._volume.count_request(kind, elapsed_ns) and isinstance(ino, int):
            with contextlib.suppress(trio.WouldBlock):
                self._slow.send_nowait((kind, ino, elapsed_ns))

    async def run(self) -> None:
        """Log slow requests until cancelled."""
        async for slow in self._next:
            # Without a thread or memory for that it is counted all the same.
            with contextlib.suppress(RuntimeError, MemoryError):
                line = await trio.to_thread.run_sync(
                    self._volume.describe_slow, *slow, abandon_on_cancel=True
                )
                log.info("%s", line.decode(errors="backslashreplace"))
