"""The native engine, as the daemon sees it: a worker process that does the serving.

The daemon keeps the connection open beside the worker, so that the mount does not hang
on one process's life: while one worker is gone, requests wait; they end in errors only
when the daemon closes its copy. No request and no byte passes through here.

Concurrency: opened before the daemon's trio loop runs, then driven by one task of it.

Not here: the worker's own work (native/fuse), starting it (worker.py).
"""

from __future__ import annotations

import logging
import os
from collections import deque

import trio

from ffrfs.errors import MountError, UnverifiedHeaderWarning
from ffrfs.mount.counter_page import CounterPage, Counters
from ffrfs.mount.request import MountRequest
from ffrfs.mount.worker import Worker

_LAST_LINES = 5  # of the log of a worker that died, told to the user
_LINE_SIZE_MAX = 4096
_LEVELS = {b"<3>": logging.ERROR, b"<4>": logging.WARNING, b"<6>": logging.INFO}

log = logging.getLogger(__name__)


class NativeEngine:
    """Serves one pack through a worker (see engine.Engine)."""

    name = "native"

    def __init__(self, request: MountRequest) -> None:
        self._page = CounterPage()
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        try:
            self._worker = Worker(request, self._page)
            try:
                is_verified = self._worker.wait_for_pack()
            except BaseException:
                self._worker.close()
                raise
        except BaseException:
            self._page.close()
            raise
        self.notices = [] if is_verified else [str(UnverifiedHeaderWarning.of(request.pack))]

    @property
    def worker_pid(self) -> int | None:
        return self._worker.pid

    def counters(self) -> Counters:
        return self._page.read()

    async def serve(self, connection: int) -> None:
        try:
            self._worker.connect(connection)
            await self._copy_log()
            await self._wait_for_end()
            if self._worker.reap() != 0:
                last = "; ".join(self._last_lines) or "it has logged nothing"
                raise MountError(f"the worker {self._worker.outcome}: {last}")
        finally:
            self._worker.let_go()
            os.close(connection)

    def close(self) -> None:
        self._worker.close()
        self._page.close()

    async def _wait_for_end(self) -> None:
        # Not by waitpid: a worker that has closed its log may live on.
        process = os.pidfd_open(self._worker.pid)
        try:
            await trio.lowlevel.wait_readable(process)
        finally:
            os.close(process)

    async def _copy_log(self) -> None:
        pending = b""
        async with trio.lowlevel.FdStream(os.dup(self._worker.log)) as stream:
            async for chunk in stream:
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    self._log_line(line)
                pending = pending[-_LINE_SIZE_MAX:]

    def _log_line(self, line: bytes) -> None:
        # Without a priority: what an abort, a sanitizer or the C library has to say.
        level = _LEVELS.get(line[:3])
        text = (line if level is None else line[3:]).decode(errors="backslashreplace")
        self._last_lines.append(text)
        log.log(logging.ERROR if level is None else level, "%s", text)
