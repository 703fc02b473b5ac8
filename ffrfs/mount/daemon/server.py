"""Serves one mount, from the moment it is made until the kernel ends its connection.

The kernel does so when the mount is gone and its last file is closed. So a signal, or the end of
the owner (`while_open`), only unmounts: a busy mount is detached lazily, and open files can be
read further. A second signal ends the process at once. SIGHUP reads the configuration again, if
there is a configuration file or a service manager, and lets a version take over that was installed
meanwhile. After an exception another daemon goes on with the mount.

Concurrency: one trio loop. Calls to the mount itself, or to the kernel about it, run in a
thread, since this very loop may have to answer them.

Not here: making and removing the mount (daemon.py), the effects of a reload (reload.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import trio

from ffrfs.errors import LostWorkerError, MountError, describe
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.daemon.announcement import Announcement
from ffrfs.mount.daemon.control_server import ControlServer, HandOver, Request
from ffrfs.mount.daemon.keeper import Keeper
from ffrfs.mount.daemon.liveness import Liveness
from ffrfs.mount.daemon.log import Log
from ffrfs.mount.daemon.memory_limit import MemoryLimit
from ffrfs.mount.daemon.metrics_file import MetricsFile
from ffrfs.mount.daemon.mount_handle import MountHandle
from ffrfs.mount.daemon.notify import Notifier
from ffrfs.mount.daemon.probe import Probe
from ffrfs.mount.daemon.reload import Reload
from ffrfs.mount.daemon.renewal import installed, renew
from ffrfs.mount.daemon.signals import HeldSignals
from ffrfs.mount.daemon.statistics import statistics
from ffrfs.mount.daemon.watchdog import Watchdog
from ffrfs.mount.engines.counter_page import first_value
from ffrfs.mount.engines.coverage import coverage, set_mark
from ffrfs.mount.engines.engine import Engine, LastingEngine
from ffrfs.mount.engines.tick import tick
from ffrfs.mount.stats.request_rate import RequestRate
from ffrfs.mount.stats.storage_stall import StorageStall

READY_TIMEOUT_S = 60.0
WARMINGS_MAX = 64
LOOK_LIMIT_S = 1.0  # how long unmounting waits for the first answer of the tree
ABORT_LIMIT_S = 1.0  # `umount -f` aborts the connection, and only then unmounts

log = logging.getLogger(__name__)


class Server:
    """A mount while it is served."""

    def __init__(  # noqa: PLR0913 - the parts that it serves, and the parties that it informs
        self,
        request: MountRequest,
        engine: Engine,
        mount: MountHandle,
        *,
        memory: MemoryLimit,
        announcement: Announcement,
        notifier: Notifier,
        keeper: Keeper,
        log_there: Log,
        held_signals: HeldSignals,
    ) -> None:
        self.request = request
        self._engine = engine
        self._memory = memory
        self._mount = mount
        self._announcement = announcement
        self._notifier = notifier
        self._keeper = keeper
        self._held_signals = held_signals
        self._watchdog = Watchdog(notifier, request.mountpoint, mount.entry.device)
        self._metrics = MetricsFile(
            request.metrics_file, lambda: self._statistics(None), is_mounted=mount.is_mounted
        )
        self._reload = Reload(log_there, mount.move_log, memory.change, self._metrics.change)
        self._nursery: trio.Nursery
        self._is_ready = trio.Event()
        self._is_stopping = False
        self._warmings = 0  # number of accepted requests to warm a part, since the mount began
        self._warmings_of = -1  # the worker that they were sent to
        self._failure: MountError | None = None
        self._installed = installed()
        self._began_s = time.monotonic() - mount.state.age_s
        self._rate: RequestRate
        self._stall: StorageStall

    def serve(self) -> None:
        """Serve until the mount is gone.

        Raises MountError if it ended before it was ready, or was aborted, and LostWorkerError if
        it must be made again.
        """
        trio.run(self._run)

    async def _run(self) -> None:
        self._rate = RequestRate(self._engine.counters, time.monotonic() - self._began_s)
        self._stall = StorageStall(self._engine.counters)
        async with trio.open_nursery() as self._nursery:
            self._begin(self._obey_signals)
            self._begin(self._announce)
            self._begin(self._rate.run)
            self._begin(self._stall.run)
            self._begin(self._metrics.run)
            self._begin(self._memory.run)
            self._begin(self._tell_of_large_hints)
            self._begin(self._keeper.watch)
            if isinstance(self._engine, LastingEngine):
                self._engine.tell_changes(self._note_change)
            commands = {
                "status": self._summary,
                "stats": self._statistics,
                "errors": self._errors,
                "coverage": self._coverage,
                "prefetch": self._prefetch,
                "fill": self._fill,
                "warm": self._warm,
                "restart": self._restart,
            }
            control = ControlServer(self._mount.control, commands)
            self._begin(control.run)
            self._begin(self._record, control)
            if self.request.while_open is not None:
                self._begin(self._watch_owner, self.request.while_open)
            await self._run_engine()
            if self._is_ready.is_set() and not (self._failure or self._is_stopping):
                await self._look_for_abort()
            if not isinstance(self._failure, LostWorkerError):
                self._notifier.stopping()
            self._nursery.cancel_scope.cancel()
        if not (self._failure or self._is_ready.is_set() or self._is_stopping):
            self._fail("the mount ended before it was ready")
        if self._failure is not None:
            raise self._failure
        log.info("%s: ended", self.request.mountpoint)

    def _begin(self, task: Callable[..., Awaitable[None]], *arguments: object) -> None:
        self._nursery.start_soon(self._run_task, task, *arguments)

    async def _run_task(self, task: Callable[..., Awaitable[None]], *arguments: object) -> None:
        try:
            await task(*arguments)
        except Exception:
            self._leave_to_next("the daemon failed")
            raise

    def _leave_to_next(self, what: str) -> None:
        """End this process after an exception, if another daemon goes on with the mount."""
        # The caller must have its answer first: otherwise it would take the mount for failed.
        if self._announcement.is_made and self._keeper.is_keeping and not self._is_stopping:
            log.exception("%s; the next one goes on with the mount", what)
            self._keeper.hand_over()

    async def _run_engine(self) -> None:
        try:
            await self._engine.serve(self._mount.connection, self._mount.abort)
        except LostWorkerError as error:
            log.error("%s", error)
            is_wanted = self._is_ready.is_set() and not self._is_stopping
            is_wanted = is_wanted and self._mount.is_in_place()
            self._fail(str(error), LostWorkerError if is_wanted else MountError)
        except MountError as error:
            log.error("%s", error)
            self._fail(str(error))
        except Exception as error:
            self._leave_to_next("the engine failed")
            log.exception("the engine failed")
            self._mount.abort()
            self._fail(f"the engine failed: {describe(error)}")

    async def _look_for_abort(self) -> None:
        """Fail if the connection has ended, and the mount has not: it was aborted (fusectl)."""
        with trio.move_on_after(ABORT_LIMIT_S):
            while self._mount.is_left():
                await trio.sleep(0.05)
            return
        log.warning("the connection was aborted; the mount is removed")
        self._fail("the connection was aborted")

    async def _announce(self) -> None:
        """Announce that the mount is ready, once the tree itself answers."""
        announcement = self._announcement
        if not announcement.is_made:
            try:
                with trio.fail_after(READY_TIMEOUT_S):
                    await trio.to_thread.run_sync(announcement.find_out, abandon_on_cancel=True)
            except (trio.TooSlowError, OSError) as error:
                late = isinstance(error, trio.TooSlowError)
                why = f"no answer within {READY_TIMEOUT_S:g} s" if late else describe(error)
                self._fail(f"mounted, but the tree does not answer: {why}")
                self._nursery.cancel_scope.cancel()
                return
            announcement.make()
        self._is_ready.set()
        self._begin(self._watchdog.run)
        if isinstance(self._engine, LastingEngine):
            probe = Probe(self.request.mountpoint, self._mount.entry.device)
            self._begin(Liveness(self._engine, self._mount.connection, probe).run)
        if not announcement.is_heard:
            await self._stop("the caller no longer waits for the mount")

    async def _obey_signals(self) -> None:
        reloads, to_do = trio.open_memory_channel[str](1)
        self._begin(self._reload_on, to_do)
        with self._held_signals.released() as numbers:
            first = True
            async for number in numbers:
                name = signal.Signals(number).name
                if number == signal.SIGHUP and self._can_reload:
                    with contextlib.suppress(trio.WouldBlock):  # a waiting reload is enough
                        reloads.send_nowait(name)
                elif first:
                    self._begin(self._stop, name)
                    first = False
                else:
                    log.warning("%s again: ending at once; readers get an error", name)
                    self._nursery.cancel_scope.cancel()

    @property
    def _can_reload(self) -> bool:
        # Without these, SIGHUP stops: a closed terminal or an ended session sends it, too.
        return self.request.config_file is not None or self._notifier.is_active

    async def _reload_on(self, reasons: trio.MemoryReceiveChannel[str]) -> None:
        async for reason in reasons:
            await self._is_ready.wait()
            if self._is_stopping:
                continue
            log.info("%s: reading the configuration again", reason)
            self._notifier.reloading()
            reloaded = await self._reload.run(self.request)
            self.request = replace(reloaded, is_filling=self.request.is_filling)
            self._keeper.note_request(self.request)
            self._notifier.ready(self._announcement.status)
            if self._engine.deaths is not None and installed() not in (None, self._installed):
                log.info("another version of ffrfs was installed: it takes over")
                await renew(self._engine, self._engine.deaths, self._keeper)

    def _note_change(self) -> None:
        self._keeper.keep()
        self._notifier.status(self._engine.refusal or self._announcement.status)

    async def _record(self, control: ControlServer) -> None:
        while True:
            await trio.sleep_until(tick())
            self._mount.record()
            control.listen_on(self._mount.control)

    async def _watch_owner(self, fd: int) -> None:
        await trio.lowlevel.wait_readable(fd)
        while os.read(fd, 4096):  # the end of the file counts, its bytes mean nothing
            await trio.lowlevel.wait_readable(fd)
        await self._stop("the owner of the mount has ended")

    async def _stop(self, reason: str) -> None:
        """Unmount; serving goes on until the kernel ends the connection."""
        if self._is_stopping:
            return
        self._is_stopping = True
        # The daemon's own look at the tree, and the watchdog's, would make the mount busy.
        with trio.move_on_after(LOOK_LIMIT_S):
            await self._is_ready.wait()
        self._keeper.clear_store()  # a busy mount is served on, while the next one is made
        self._notifier.stopping()
        log.info("%s: unmounting", reason)
        await self._watchdog.stop()
        take_away, busy = partial(self._mount.take_away, is_open=True), None
        while busy is None:
            try:
                busy = await trio.to_thread.run_sync(take_away)
            except OSError as error:
                log.error("%s", describe(error))
                return
            # No thread can be started. Files that are open are served meanwhile.
            except RuntimeError as error:
                log.warning("not unmounted yet: %s", describe(error))
                await trio.sleep_until(tick())
        if busy:
            place = self.request.mountpoint
            log.warning("%s: busy: detached; serving until its last open file is closed", place)

    def _summary(self, _: object) -> dict[str, object]:
        """Return the fields of `ffrfs ps` and `check`, which may ask a thousand daemons at once."""
        return {
            "worker_pid": self._engine.worker_pid,
            "fetcher_pid": self._engine.fetcher_pid,
            "changed_objects": first_value(self._engine.counters(), "remote_changed"),
            "transport": self._engine.transport,
            "age_s": round(time.monotonic() - self._began_s, 3),
            "requests_per_s": round(self._rate.per_s(), 1),
            "unreadable_files": self._engine.failures.file_count,
            "cache_in_memory": first_value(self._engine.counters(), "remote_in_memory"),
            "read_failures": first_value(self._engine.counters(), "read_failures"),
            "storage_stalled_s": round(self._stall.look(), 1),
            "refusal": self._engine.refusal,
            "worker_deaths": 0 if self._engine.deaths is None else self._engine.deaths.count,
        }

    def _statistics(self, _: object) -> dict[str, object]:
        age_s = time.monotonic() - self._began_s
        logs_to = {"log_file": self._mount.state.log_file, "journal": self._mount.state.journal}
        return {
            **statistics(self.request, self._engine, self._memory, age_s, self._rate.per_s()),
            "daemon_starts": self._keeper.starts,
            **logs_to,
        }

    def _errors(self, _: object) -> dict[str, object]:
        return self._engine.failures.listed(self._engine.counters())

    def _coverage(self, request: Request) -> dict[str, object]:
        """Return the receipt since the last mark; with "mark", set another."""
        if self._engine.page is None:
            raise MountError("its engine does not count reads")
        counters = self._engine.counters()
        began_s = time.time() - (time.monotonic() - self._began_s)
        found = coverage(self._engine.page, counters, began_s)
        if request.get("mark"):
            set_mark(self._engine.page, counters)
        return found

    def _prefetch(self, _: object) -> HandOver:
        if self.request.prefetch_records == 0:
            raise MountError("it was mounted without prefetch (--prefetch-window 0)")
        starts = None if self._engine.deaths is None else self._engine.deaths.starts
        limits = {"file_bytes_max": self._memory.hinted_bytes_max, "worker_starts": starts}
        return HandOver(self._engine.take_hints, limits)

    def _fill(self, _: object) -> dict[str, int]:
        """Begin to fetch all of the packs into the cache on disk."""
        if not self.request.is_remote:
            raise MountError("its packs are local files, and no cache on disk is in use")
        counters = self._engine.counters()
        settings = self.request.remote_settings()
        if settings.cache_mode != "full" or first_value(counters, "remote_in_memory"):
            raise MountError("it keeps nothing on disk: mount with --cache-dir, in mode full")
        whole_bytes = first_value(counters, "remote_object_bytes")
        if whole_bytes > settings.cache_size:
            raise MountError(
                f"its packs have {whole_bytes:,} bytes, and the cache holds "
                f"{settings.cache_size:,}: mount with a larger --cache-size"
            )
        self._engine.fill_cache()
        self.request = replace(self.request, is_filling=True)  # the next daemon goes on with it
        self._keeper.note_request(self.request)
        return {"whole_bytes": whole_bytes}

    def _warm(self, request: Request) -> dict[str, object]:
        """Begin to push the files of a part of the tree that the kernel knows."""
        if self.request.prefetch_records == 0:
            raise MountError("it was mounted without prefetch (--prefetch-window 0)")
        ino = request.get("ino")
        if not isinstance(ino, int) or not 0 < ino < 1 << 64:
            raise MountError("warm needs the number of an inode")
        deaths = self._engine.deaths
        if deaths is not None and deaths.starts != self._warmings_of:
            # Warmings that an earlier worker had not begun are lost with it.
            self._warmings_of = deaths.starts
            self._warmings = first_value(self._engine.counters(), "warm_begun")
        waiting = self._warmings - first_value(self._engine.counters(), "warm_begun")
        if waiting >= WARMINGS_MAX:
            raise MountError(f"{waiting} parts of the tree wait to be warmed; try again later")
        self._engine.warm(ino)
        self._warmings += 1
        return {"begun": self._warmings}  # what warm_begun says once this part has begun

    def _restart(self, _: object) -> dict[str, object]:
        """Begin to replace worker and daemon; later figures show when that is done."""
        if self._engine.deaths is None:
            self._engine.restart()
            return {}
        before = self._statistics(None)
        self._begin(renew, self._engine, self._engine.deaths, self._keeper)
        return before | {"daemon_ends": self._keeper.has_next}

    async def _tell_of_large_hints(self) -> None:
        """Log once, so that users of too large hints learn why they have no effect."""
        while not any(self._engine.counters().get("prefetch_too_large", ())):
            await trio.sleep_until(tick())
        log.warning(
            "hinted files of more than %s bytes are not read ahead: they do not fit into an eighth "
            "of the cache; raise --cache-mb",
            f"{self._memory.hinted_bytes_max:,}",
        )

    def _fail(self, reason: str, kind: type[MountError] = MountError) -> None:
        self._failure = kind(f"{self.request.mountpoint}: {reason}")
