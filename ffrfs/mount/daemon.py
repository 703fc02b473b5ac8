"""The process behind one mount: makes it, serves it, and ends with it.

The order is: open the packs, claim the mount point, mount, serve; a step that fails
undoes those before it. The process ends when the kernel ends the connection, which is
when the mount is gone and its last file is closed. So a signal, or the end of the owner
(`while_open`), only unmounts: a busy mount is detached lazily, and files that are open
can be read on. A second signal ends the process at once.

Concurrency: one trio loop. Whatever asks the mount itself, or the kernel about it, runs
in a thread, since the answer may have to come from this very loop.

Not here: going to the background (background.py), what is printed (ffrfs.cli).
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import trio

from ffrfs.errors import MountError
from ffrfs.mount import control_socket, kernel_mount, mountpoint, state
from ffrfs.mount.control_server import ControlServer, HandOver
from ffrfs.mount.engine import Engine, open_engine
from ffrfs.mount.log import logging_to
from ffrfs.mount.mount_table import MountEntry, mount_at
from ffrfs.mount.process import Process
from ffrfs.mount.report import describe
from ffrfs.mount.request import MountRequest
from ffrfs.mount.statistics import statistics

READY_TIMEOUT_S = 60.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

log = logging.getLogger(__name__)

Ready = Callable[[list[str]], None]


def serve(request: MountRequest, ready: Ready, *, foreground: bool = False) -> None:
    """Mount, and serve until the mount is gone.

    Calls `ready` with the engine's notices once the tree answers; an OSError from there
    means that nobody waits for it any more, and unmounts. Raises what kept the mount
    from coming up, or from going on; nothing is left mounted then.
    """
    directory = state.runtime_directory()
    log_file, rotate = request.log_file, False
    if log_file is None and not foreground:
        log_file, rotate = state.log_path(directory, request.mountpoint), True
    engine = open_engine(request)
    try:
        with _signals_held():
            mount = _attach(request, directory, log_file)
            try:
                with logging_to(log_file, rotate=rotate):
                    trio.run(_Server(request, engine, mount, ready).run)
            finally:
                mount.take_away()
                mount.control.close()
    finally:
        engine.close()


@dataclass(frozen=True)
class _Mount:
    """A mount of ours, and what goes with it."""

    directory: str
    state: state.MountState
    entry: MountEntry
    connection: int
    control: socket.socket  # listening

    def take_away(self) -> bool:
        """Unmount and clean up; True: it was busy. Harmless when it is gone already."""
        place = self.state.mountpoint
        with state.locked(self.directory):
            known = state.load(self.directory, place)
            if known is not None and known != self.state:
                return False  # ours is gone; another daemon has the place
            # Something else on top: ours was unmounted by others, or is covered. Device
            # numbers alone do not tell: the kernel gives them out again at once.
            busy = kernel_mount.detach(place) if mount_at(place) == self.entry else False
            state.forget(self.directory, self.state)
            return busy

    def abort(self) -> None:
        """End the connection by force; harmless when it has ended."""
        kernel_mount.abort(self.connection, self.entry)


def _attach(request: MountRequest, directory: str, log_file: str | None) -> _Mount:
    place = request.mountpoint
    with state.locked(directory):
        known = state.MountState(
            mountpoint=place,
            pack=request.title,
            process=Process.current(),
            created_mountpoint=mountpoint.prepare(place, nonempty=request.options.nonempty),
            log_file=log_file,
        )
        with contextlib.ExitStack() as undo:
            undo.callback(state.forget, directory, known)
            state.save(directory, known)
            control = control_socket.listen(state.socket_path(directory, place))
            undo.enter_context(control)
            connection = kernel_mount.attach(place, request.source, request.options)
            undo.pop_all()
        entry = mount_at(place)
    assert entry is not None, "the kernel has mounted it"
    kernel_mount.allow_more_requests(entry.device)
    return _Mount(directory, known, entry, connection, control)


class _Server:
    """One mount while it is served."""

    def __init__(self, request: MountRequest, engine: Engine, mount: _Mount, ready: Ready) -> None:
        self._request = request
        self._engine = engine
        self._mount = mount
        self._ready = ready
        self._nursery: trio.Nursery
        self._is_ready = False
        self._is_stopping = False
        self._failure: MountError | None = None
        self._began_s = time.monotonic()

    async def run(self) -> None:
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._obey_signals)
            self._nursery.start_soon(self._announce)
            commands = {"stats": self._statistics, "prefetch": self._prefetch}
            self._nursery.start_soon(ControlServer(self._mount.control, commands).run)
            if self._request.while_open is not None:
                self._nursery.start_soon(self._watch_owner, self._request.while_open)
            await self._run_engine()
            self._nursery.cancel_scope.cancel()
        if self._failure is None and not self._is_ready:
            self._fail("the mount ended before it was ready")
        if self._failure is not None:
            raise self._failure
        log.info("%s: ended", self._request.mountpoint)

    async def _run_engine(self) -> None:
        try:
            await self._engine.serve(self._mount.connection, self._mount.abort)
        except MountError as error:
            log.error("%s", error)
            self._fail(str(error))
        except Exception as error:
            log.exception("the engine failed")
            self._fail(f"the engine failed: {describe(error)}")

    async def _announce(self) -> None:
        """Say that the mount is ready, once it is: the tree itself is asked."""
        place = self._request.mountpoint
        try:
            with trio.fail_after(READY_TIMEOUT_S):
                await trio.to_thread.run_sync(_look_into, place, abandon_on_cancel=True)
        except (trio.TooSlowError, OSError) as error:
            self._fail(f"mounted, but the tree does not answer: {describe(error)}")
            self._nursery.cancel_scope.cancel()
            return
        self._is_ready = True
        self._raise_readahead()
        log.info("%s: mounted at %s, engine %s", self._request.title, place, self._engine.name)
        for notice in self._engine.notices:
            log.warning("%s", notice)
        try:
            self._ready(self._engine.notices)
        except OSError:
            await self._stop("nobody waits for the mount any more")

    def _raise_readahead(self) -> None:
        # Only now: what the kernel is told in answer to its first request lowers it again.
        try:
            kernel_mount.raise_readahead(self._mount.entry.device)
        except OSError as error:
            log.info("large files are read in small pieces: %s", describe(error))

    async def _obey_signals(self) -> None:
        with trio.open_signal_receiver(*_SIGNALS) as numbers:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            first = True
            async for number in numbers:
                name = signal.Signals(number).name
                if first:
                    self._nursery.start_soon(self._stop, name)
                    first = False
                else:
                    log.warning("%s again: ending at once; readers get an error", name)
                    self._nursery.cancel_scope.cancel()

    async def _watch_owner(self, fd: int) -> None:
        while True:
            await trio.lowlevel.wait_readable(fd)
            if not os.read(fd, 4096):  # bytes have no meaning; the end has
                break
        await self._stop("the owner of the mount has ended")

    async def _stop(self, reason: str) -> None:
        """Unmount; serving goes on until the kernel ends the connection."""
        if self._is_stopping:
            return
        self._is_stopping = True
        log.info("%s: unmounting", reason)
        try:
            busy = await trio.to_thread.run_sync(self._mount.take_away)
        except MountError as error:
            log.error("%s", error)
            return
        if busy:
            log.warning(
                "%s: busy: detached; serving until its last open file is closed",
                self._request.mountpoint,
            )

    def _statistics(self, _: object) -> dict[str, object]:
        age_s = time.monotonic() - self._began_s
        return statistics(self._request, self._engine, age_s)

    def _prefetch(self, _: object) -> HandOver:
        if self._request.prefetch_records == 0:
            raise MountError("it was mounted without prefetch (--prefetch-window 0)")
        return HandOver(self._engine.take_hints)

    def _fail(self, reason: str) -> None:
        self._failure = MountError(f"{self._request.mountpoint}: {reason}")


def _look_into(mountpoint: str) -> None:
    os.stat(mountpoint)
    # Whoever mounts may hide the tree from himself (umask=, uid=): that too is an answer.
    with contextlib.suppress(PermissionError), os.scandir(mountpoint) as entries:
        next(entries, None)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Let no signal end the process between mounting and being able to unmount."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
