"""The native engine, as the daemon sees it: a worker process that serves.

The daemon keeps a descriptor of the connection, too, so that the mount does not depend on the
life of one process: while there is no worker, requests wait; they end in errors only when the
daemon closes its descriptor. No request and no byte passes through here.

Concurrency: opened before the daemon's trio loop runs, then driven by one task of it.

Not here: the worker's own work (native/worker), starting it (worker.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ffrfs.errors import MountError
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.engines.counter_page import CounterPage, Counters
from ffrfs.mount.engines.read_failures import ReadFailures
from ffrfs.mount.engines.worker import Worker
from ffrfs.mount.kernel import uring

if TYPE_CHECKING:
    import trio

    from ffrfs.mount.engines.mount_fetcher import MountFetcher

_LAST_LINES = 5  # lines of a dead worker's log that the error quotes
_LINE_SIZE_MAX = 4096
_LEVELS = {b"<3>": logging.ERROR, b"<4>": logging.WARNING, b"<6>": logging.INFO}

log = logging.getLogger(__name__)


class NativeEngine:
    """Serves one tree through a worker (see engine.Engine)."""

    name = "native"

    def __init__(self, request: MountRequest) -> None:
        self.failures = ReadFailures()
        self._page = CounterPage()
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._remark: str | None = None  # for the log
        self._fetching: MountFetcher | None = None
        with contextlib.ExitStack() as undo:
            undo.callback(self._page.close)
            transport = self._choose_transport(request.transport)
            self.may_use_rings = transport != "dev"
            self._worker = self._start_worker(request, transport, undo)
            undo.callback(self._worker.close)
            if self._fetching is not None:
                self._fetching.bring_links_to(self._worker.take_fetcher)
            self.notices = self._worker.wait_for_packs()
            undo.pop_all()

    def _start_worker(
        self, request: MountRequest, transport: str, undo: contextlib.ExitStack
    ) -> Worker:
        if not request.is_remote:
            return Worker(request, transport, self._page)
        # Here, not above: most mounts have no fetcher.
        from ffrfs.mount.engines.mount_fetcher import MountFetcher

        self._fetching = MountFetcher(request)
        undo.callback(self._fetching.close)
        link = self._fetching.link()
        try:
            return Worker(request, transport, self._page, link)
        finally:
            os.close(link)

    @property
    def worker_pid(self) -> int | None:
        return self._worker.pid

    @property
    def fetcher_pid(self) -> int | None:
        return None if self._fetching is None else self._fetching.pid

    @property
    def transport(self) -> str:
        return "uring" if any(self.counters().get("uring_queues", ())) else "dev"

    def counters(self) -> Counters:
        fetched = {} if self._fetching is None else self._fetching.counters()
        return self._page.read() | fetched

    def take_hints(self, client: int) -> None:
        self._worker.take_hints(client)

    def fill_cache(self) -> None:
        if self._fetching is not None:
            self._fetching.fill()

    def limit_cache(self, size_bytes: int) -> None:
        self._worker.limit_cache(size_bytes)

    def warm(self, ino: int) -> None:
        self._worker.warm(ino)

    def limit_pushed(self, size_bytes: int) -> None:
        self._worker.limit_pushed(size_bytes)

    def connect(self, connection: int) -> bool:
        if self._remark is not None:
            log.info("%s", self._remark)
        self._worker.connect(connection)
        return True

    async def serve(self, connection: int, abort: Callable[[], None]) -> None:
        # Here, not above: the worker serves while these modules are imported.
        import trio

        from ffrfs.mount.engines.worker_life import WorkerLife, abort_for_the_dying

        try:
            # Opened now, so that the mount goes on even if no descriptor is left later.
            with WorkerLife(self._worker.pid) as life:
                log_copy = trio.lowlevel.FdStream(os.dup(self._worker.log))
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(abort_for_the_dying, life, abort)
                    await self._copy_log(log_copy)
                    await life.wait_for_end()
                    nursery.cancel_scope.cancel()
            if self._worker.reap() != 0:
                last = "; ".join(self._last_lines) or "it has logged nothing"
                raise MountError(f"the worker {self._worker.outcome}: {last}")
        finally:
            abort()
            self._worker.let_go()
            os.close(connection)

    def close(self) -> None:
        if self._fetching is not None:
            self._fetching.close()
        self._worker.close()
        self._page.close()

    def _choose_transport(self, wanted: str) -> str:
        """Return the transport for the worker; only the kernel knows whether it offers rings."""
        if wanted == "dev" or uring.is_enabled():
            return wanted
        if wanted == "uring":
            raise MountError(f"--transport uring: {uring.HOW_TO_ENABLE}")
        self._remark = f"requests come through /dev/fuse: {uring.HOW_TO_ENABLE}"
        return "dev"

    async def _copy_log(self, stream: trio.lowlevel.FdStream) -> None:
        pending = b""
        async with stream:
            async for chunk in stream:
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    self._log_line(line)
                pending = pending[-_LINE_SIZE_MAX:]

    def _log_line(self, line: bytes) -> None:
        # Lines without a priority come from an abort, a sanitizer or the C library.
        level = _LEVELS.get(line[:3])
        shown = self.failures.noted(line if level is None else line[3:])
        text = shown.decode(errors="backslashreplace")
        self._last_lines.append(text)
        log.log(logging.ERROR if level is None else level, "%s", text)
