"""The native engine, as the daemon sees it: a worker process that serves.

The daemon keeps a descriptor of the connection, too, so that the mount does not depend on the
life of one process: while there is no worker, requests wait. A worker that has died is replaced on
the same connection; the kernel gives the requests that it was working on to its replacement
(Linux 6.9), and no reader notices. After five deaths in a row, or while the packs cannot be opened,
the daemon answers all requests with errors. No request and no byte passes through here otherwise.

Requests in rings of io_uring are lost with their worker, and with them the connection.

Concurrency: opened before the daemon's trio loop runs, then driven by one task of it.

Not here: the worker's own work (native/worker), starting it (worker.py), its log (worker_log.py),
what a death means (worker_deaths.py), answering with errors (refusal.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ffrfs.errors import (
    ChangedAtOriginError,
    FfrfsError,
    LostWorkerError,
    MountError,
    describe,
    is_shortage,
)
from ffrfs.files.closing import closing_fd
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.config.settings import Transport
from ffrfs.mount.engines.counter_page import CounterPage, Counters
from ffrfs.mount.engines.kept_engine import KeptEngine
from ffrfs.mount.engines.read_failures import ReadFailures
from ffrfs.mount.engines.worker import Worker
from ffrfs.mount.engines.worker_deaths import (
    UNSEEN,
    WorkerDeaths,
    outcome_of,
    unanswered,
)
from ffrfs.mount.engines.worker_log import WorkerLog
from ffrfs.mount.kernel import uring
from ffrfs.mount.kernel.kernel_mount import is_connected

if TYPE_CHECKING:
    import trio

    from ffrfs.mount.engines.mount_fetcher import MountFetcher

_LAST_LINES_S = 0.5  # how long the last lines of a dead worker's log are waited for
_RESTART_LIMIT_S = 10.0  # for opening the packs; the present worker serves meanwhile
_SHORTAGE_LIMIT_S = 60.0  # how long readers wait until there is room for another worker
_RETRY_S = 2.0  # between attempts to open packs that could not be read

log = logging.getLogger(__name__)


class NativeEngine:
    """Serves one tree through a worker (see engine.Engine)."""

    name = "native"

    def __init__(self, request: MountRequest, kept: KeptEngine | None = None) -> None:
        """`kept`: the state that the mount's last daemon has left."""
        self.failures = ReadFailures(() if kept is None else kept.failures)
        self.deaths = WorkerDeaths() if kept is None else WorkerDeaths(**kept.deaths)
        self.refusal: str | None = None
        self._request = request  # a reload changes nothing that a worker needs
        self._page = CounterPage(None if kept is None else kept.descriptors["page"])
        self._changed: Callable[[], None] = lambda: None
        self._log = WorkerLog(self.failures, lambda: self._changed())  # noqa: PLW0108 - set later
        self._fetching: MountFetcher | None = None
        self._limits: dict[str, int] = {}
        self._next: Worker | None = None  # takes over when the present one has ended
        self._died_s = 0.0  # when the last worker ended
        self._cause: str | None = None  # why this daemon killed the worker
        self._may_pass = False  # whether the error of the last failed start may pass
        self._wish: trio.Event  # set to request a restart, while serve() runs
        with contextlib.ExitStack() as undo:
            undo.callback(self._page.close)
            self._transport = (
                _choose_transport(request.transport) if kept is None else kept.transport
            )
            self.may_use_rings = self._transport != "dev"
            if request.is_remote:
                # Here, not above: most mounts have no fetcher.
                from ffrfs.mount.engines.mount_fetcher import MountFetcher

                self._fetching = MountFetcher(request, kept)
                undo.callback(self._fetching.close)
            self.notices: list[str] = []
            self._worker = self._new_worker() if kept is None else Worker.of(kept, request)
            if kept is None:
                undo.callback(self._worker.close)
                self._bring_links(self._worker)
                self.notices = self._worker.wait_for_packs()
            else:
                self._resume()
            undo.pop_all()

    def _new_worker(self, before: Worker | None = None) -> Worker:
        request = replace(self._request, transport=self._transport)
        link = None if self._fetching is None else self._fetching.link_for_next()
        try:
            return Worker(request, self._page, link, self.deaths, before)
        finally:
            if link is not None:
                os.close(link)

    def _resume(self) -> None:
        """Pass the daemon's settings and sockets to the worker, which may have ended."""
        self.limit_cache(self._request.opening_cache_bytes)
        if self._fetching is None:
            return
        with closing_fd(self._fetching.link_for_next()) as link, contextlib.suppress(OSError):
            self._worker.take_fetcher(link)
        self._bring_links(self._worker)

    def _bring_links(self, worker: Worker) -> None:
        if self._fetching is not None:
            self._fetching.bring_links_to(worker.take_fetcher)

    @property
    def worker_pid(self) -> int | None:
        # The pid is negative if the worker died before this daemon began.
        return self._worker.pid if self._worker.pid > 0 else None

    @property
    def page(self) -> int | None:
        return self._page.fd

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
        self._limits["limit_cache"] = size_bytes
        self._worker.limit_cache(size_bytes)

    def warm(self, ino: int) -> None:
        self._worker.warm(ino)

    def limit_pushed(self, size_bytes: int) -> None:
        self._limits["limit_pushed"] = size_bytes
        self._worker.limit_pushed(size_bytes)

    def connect(self, connection: int) -> bool:
        self._worker.connect(connection)
        return True

    def restart(self) -> None:
        self._wish.set()

    def kill_worker(self, cause: str) -> None:
        self._cause = cause
        self._worker.kill()

    def kept(self) -> KeptEngine:
        fetching = {} if self._fetching is None else self._fetching.kept()
        return KeptEngine(
            descriptors={"page": self._page.fd} | self._worker.kept() | fetching,
            transport=self._transport,
            identities=self._worker.identities.hex(),
            last_files=list(self._worker.last_files.values()),
            deaths=self.deaths.kept(),
            failures=self.failures.kept(),
        )

    def tell_changes(self, tell: Callable[[], None]) -> None:
        self._changed = tell

    async def serve(self, connection: int, abort: Callable[[], None]) -> None:
        # Here, not above: the worker serves while these modules are imported.
        import trio

        self._wish = trio.Event()
        os.set_blocking(connection, True)  # a daemon may have died while it refused requests
        with contextlib.ExitStack() as at_end:
            at_end.callback(os.close, connection)
            at_end.callback(lambda: self._worker.let_go())  # noqa: PLW0108 - the one of that time
            at_end.callback(abort)
            try:
                while not await self._follow(connection, abort) and await self._replace(connection):
                    pass
            except Exception as error:
                if not isinstance(error, MountError):
                    at_end.pop_all()  # the worker serves on
                raise

    async def _follow(self, connection: int, abort: Callable[[], None]) -> bool:
        """Wait for the worker's end; return whether it ended with the connection."""
        import trio

        from ffrfs.mount.engines import refusal, worker_life  # noqa: F401 - files may go later

        try:
            # Opened now, so that the mount goes on even if no descriptor is left later.
            life = worker_life.WorkerLife(self._worker.process, self._worker.pid, self._page.read)
        except FileNotFoundError:  # it has died, as has the daemon that started it
            self._died_s = time.monotonic()
            return not is_connected(connection) or self._note_death(UNSEEN)
        with life:
            stream = trio.lowlevel.FdStream(os.dup(self._worker.log))
            is_copied = trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._log.copy, stream, is_copied)
                nursery.start_soon(self._obey_restarts)
                dying = await life.wait_for_end()
                while dying is not None and self.transport == "uring":
                    abort()
                    dying = await life.wait_for_end()
                self._died_s = time.monotonic()
                with trio.move_on_after(_LAST_LINES_S if dying is None else 0):
                    await is_copied.wait()
                nursery.cancel_scope.cancel()
        status = self._worker.reap() if dying is None else dying
        has_gone = status == 0 or (status == UNSEEN and not is_connected(connection))
        if has_gone or self._next is not None:
            return has_gone
        return self._note_death(status)

    def _note_death(self, status: int) -> bool:
        """Note how the worker has ended; return False. Raises MountError if none can follow."""
        text = f"the worker {outcome_of(status)}: {self._log}"
        if self.transport == "uring":
            raise LostWorkerError(text)
        log.error("%s", text)
        self._may_pass = False
        self.deaths.last_failure = text
        self.deaths.note(status, self._page.read(), self._cause)
        self._changed()
        return False

    async def _replace(self, connection: int) -> bool:
        """Let another worker serve; return False if the connection has ended."""
        import trio

        while is_connected(connection):
            if self.deaths.is_hopeless:
                await self._refuse(connection)
                continue
            try:
                if self._next is None:
                    await trio.sleep(self.deaths.pause_s)
                    self._next = await self._opened_worker()
            except (FfrfsError, OSError) as error:
                log.error("no other worker: %s", describe(error))
                if is_shortage(error) and time.monotonic() - self._died_s < _SHORTAGE_LIMIT_S:
                    await trio.sleep(_RETRY_S)
                    continue
                self._may_pass = _may_pass(error)
                self.deaths.note_failed_start(describe(error))
            else:
                self._take_over(connection)
                return True
        return False

    def _take_over(self, connection: int) -> None:
        assert self._next is not None
        self._worker.drop()
        self._worker, self._next = self._next, None
        self._log.clear()
        self._cause = None
        self._worker.connect(connection)
        self._bring_links(self._worker)
        for set_limit in (self.limit_cache, self.limit_pushed):
            if (size_bytes := self._limits.get(set_limit.__name__)) is not None:
                set_limit(size_bytes)
        pause_s = time.monotonic() - self._died_s
        self.deaths.note_start(pause_s)
        self._changed()
        log.info("another worker serves, after %.2f s: process %d", pause_s, self._worker.pid)

    async def _opened_worker(self) -> Worker:
        """Return another worker that has opened the packs. Raises FfrfsError and OSError."""
        import trio

        worker = await trio.to_thread.run_sync(self._new_worker, self._worker)
        try:
            # The fetcher may have died as well, and opening waits for a link to the next one.
            await trio.to_thread.run_sync(self._bring_links, worker)
            await trio.to_thread.run_sync(worker.wait_for_packs, abandon_on_cancel=True)
        except BaseException:
            worker.kill()
            worker.drop()
            raise
        return worker

    async def _obey_restarts(self) -> None:
        """Open the packs in another worker when a restart is wanted, and end the present one."""
        import trio

        while True:
            await self._wish.wait()
            self._wish = trio.Event()
            self.deaths.forgive()
            try:
                with trio.fail_after(_RESTART_LIMIT_S):
                    self._next = await self._opened_worker()
            except (FfrfsError, OSError, trio.TooSlowError) as error:
                self._bring_links(self._worker)
                is_late = isinstance(error, trio.TooSlowError)
                reason = f"not within {_RESTART_LIMIT_S:g} s" if is_late else describe(error)
                self.deaths.last_failure = reason
                self.deaths.failed_restarts += 1
                log.error("restart: %s; the worker serves on", reason)
            else:
                self.deaths.restarts += 1
                self._worker.kill()

    async def _refuse(self, connection: int) -> None:
        """Answer with errors until a restart is wanted, or until the connection ends.

        If the packs' storage has failed, also end as soon as a worker can open the packs.
        """
        import trio

        from ffrfs.mount.engines.refusal import refuse_requests

        if self._may_pass:
            self.refusal = f"the packs cannot be opened: {self.deaths.last_failure}"
            log.error("%s; all reads fail until they can", self.refusal)
        else:
            self.refusal = self.deaths.refusal
            log.error("%s; all reads fail%s", self.refusal, self.deaths.remedy)
        self._changed()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._end_at_restart, nursery.cancel_scope)
                if self._may_pass:
                    nursery.start_soon(self._end_when_open, nursery.cancel_scope)
                await refuse_requests(connection, unanswered(self._page.read()))
                nursery.cancel_scope.cancel()
        finally:
            self.refusal = None
            self._changed()

    async def _end_at_restart(self, scope: trio.CancelScope) -> None:
        import trio

        await self._wish.wait()
        self._wish = trio.Event()
        self.deaths.forgive()
        self.deaths.restarts += 1
        scope.cancel()

    async def _end_when_open(self, scope: trio.CancelScope) -> None:
        import trio

        while self._next is None:
            await trio.sleep(_RETRY_S)
            with contextlib.suppress(FfrfsError, OSError):  # the first one was logged
                self._next = await self._opened_worker()
        self.deaths.in_row = 0
        scope.cancel()

    def close(self) -> None:
        if self._fetching is not None:
            self._fetching.close()
        self._worker.close()
        self._page.close()


def _may_pass(error: Exception) -> bool:
    """Return whether a later attempt to open the packs may succeed: their storage has failed."""
    return isinstance(error, OSError) and not isinstance(error, MountError | ChangedAtOriginError)


def _choose_transport(wanted: str) -> Transport:
    """Return the transport for the workers: rings only if asked for, as they die with a worker."""
    if wanted != "uring":
        return "dev"
    if not uring.is_enabled():
        raise MountError(f"--transport uring: {uring.HOW_TO_ENABLE}")
    return "uring"
