"""The process behind one mount: makes it, serves it, and ends with it.

The order is: open the log, open the packs, claim the mount point, mount, announce, serve; a
failed step undoes the steps before it. A daemon that goes on with the mount of a dead one takes
over packs and mount instead. A new mount imports the modules of serving (server.py), above all
trio, last: an engine with a worker process serves meanwhile.

Not here: going to the background (background.py), printing (ffrfs.cli).
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterator

from ffrfs.errors import FfrfsError, LostWorkerError, MountError
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.daemon import signals
from ffrfs.mount.daemon.announcement import Announcement, Ready
from ffrfs.mount.daemon.keeper import FAILED_STATUS, Keeper
from ffrfs.mount.daemon.kept_mount import KeptMount
from ffrfs.mount.daemon.log import Log, journal_match, logging_to
from ffrfs.mount.daemon.memory_limit import MemoryLimit
from ffrfs.mount.daemon.mount_handle import MountHandle, make_mount, take_over
from ffrfs.mount.daemon.notify import Notifier
from ffrfs.mount.engines.engine import Engine, LastingEngine
from ffrfs.mount.engines.engine_factory import open_engine
from ffrfs.mount.engines.worker_deaths import IN_ROW_MAX
from ffrfs.mount.kernel import privileges, runtime_lock, state
from ffrfs.mount.kernel.pack_versions import versions_of

# Descriptors for the loop, which begins when the mount is announced and must not fail any more.
_LOOP_COUNT = 16
_LIFE_ENOUGH_S = 10.0  # of a connection; if several in a row end sooner, no further mount is made

log = logging.getLogger(__name__)


def serve(
    request: MountRequest,
    ready: Ready,
    *,
    foreground: bool = False,
    notifier: Notifier | None = None,
    kept: KeptMount | None = None,
) -> None:
    """Mount, and serve until the mount is gone. `kept`: the mount, if another daemon has made it.

    A mount whose connection is lost with its worker is made again at the same place.

    Calls `ready` with the engine's notices once the tree answers; if `ready` raises OSError,
    the caller waits no more, and the mount is unmounted. The service manager gets the news
    first, through `notifier`, by default that of the environment. Raises the error that kept
    the mount from coming up, or from going on; nothing is left mounted then.
    """
    notifier = notifier or Notifier.from_environment()
    if kept is not None:
        # Imported now: in the middle of an upgrade this may fail, which must not end the mount.
        from ffrfs.mount.daemon import server  # noqa: F401 - imported for later
    in_row = 0
    while True:
        began_s = time.monotonic()
        try:
            _serve_one(request, ready, foreground=foreground, notifier=notifier, kept=kept)
        except _LostConnectionError as lost:
            in_row = in_row + 1 if time.monotonic() - began_s < _LIFE_ENOUGH_S else 1
            if in_row == IN_ROW_MAX:
                raise lost.error from None
            # The caller has its answer already.
            request, ready, kept = lost.request, lambda _: None, None
        else:
            return


class _LostConnectionError(Exception):
    """The connection of a mount is lost with its worker. `request`: the present configuration."""

    def __init__(self, error: LostWorkerError, request: MountRequest) -> None:
        self.error = error
        self.request = request


def _serve_one(
    request: MountRequest,
    ready: Ready,
    *,
    foreground: bool,
    notifier: Notifier,
    kept: KeptMount | None,
) -> None:
    """Do the same as serve(), for one connection."""
    directory, notices = (state.runtime_directory(), []) if kept is None else state.next_directory()
    notices += privileges.drop()  # before any byte of a pack is read, and any thread started
    if kept is None:
        _check_metrics_file(request)
    has_own_log = request.log_file is None and not foreground
    # A log that cannot be opened any more must not end a mount that is in use.
    is_used = kept is not None
    with (
        logging_to(request.log_file, is_kept=has_own_log, or_keep=is_used) as log_there,
        contextlib.ExitStack() as at_end,
    ):
        with _left_to_next(kept):
            versions = {} if is_used else versions_of(request.packs)  # before they are opened
            engine = open_engine(request, None if kept is None else kept.engine)
            at_end.callback(engine.close)
            engine.notices[:0] = notices
            memory = MemoryLimit(request, engine, None if kept is None else kept.base_bytes)
            engine.notices += memory.notices()
            held_signals = at_end.enter_context(signals.held())
            own_log = state.log_path(directory, request.mountpoint) if log_there.is_kept else None
            log_file = own_log or request.log_file
            if kept is None:
                journal = journal_match() if log_file is None else None
                mount = make_mount(request, directory, log_file, journal, versions)
            else:
                mount = take_over(kept, directory, log_file)
            if mount.control is not None:
                at_end.callback(mount.control.close)
            at_end.callback(mount.take_away)
            to_keep = _to_keep(
                request, engine, mount, memory=memory, is_foreground=foreground, before=kept
            )
            keeper = Keeper(mount, engine, notifier, to_keep)
            at_end.callback(keeper.forget)
            # Only now: make_mount() has first cleared the place of a dead daemon's mount.
            if own_log is not None:
                _open_own(log_there, own_log, or_none=is_used)
            if mount.notice is not None:
                log.warning("%s", mount.notice)
            announcement = Announcement(request, engine, mount, notifier, ready)
            keeper.begin(runtime_lock.LIMIT_S if kept is None else 0)  # nobody reads a new one yet
            with _descriptors_kept():
                if kept is not None or engine.connect(mount.connection):
                    announcement.make_early(is_announced=kept is not None)
            from ffrfs.mount.daemon.server import Server

            server = Server(
                request,
                engine,
                mount,
                memory=memory,
                announcement=announcement,
                notifier=notifier,
                keeper=keeper,
                log_there=log_there,
                held_signals=held_signals,
            )
        try:
            server.serve()
        except LostWorkerError as error:
            raise _LostConnectionError(error, server.request) from None


@contextlib.contextmanager
def _left_to_next(kept: KeptMount | None) -> Iterator[None]:
    """End only this process at an error that says nothing of the mount, such as a lack of threads.

    The mount of another daemon goes on with its worker, and its guardian begins the next daemon.
    """
    try:
        yield
    except MountError:
        raise
    except Exception:
        if kept is None:
            raise
        log.exception("the daemon cannot begin; the next one goes on with the mount")
        logging.shutdown()
        os._exit(FAILED_STATUS)


def _open_own(log_there: Log, path: str, *, or_none: bool) -> None:
    """Log to that file of the runtime directory. `or_none`: log nowhere if it cannot be opened."""
    try:
        log_there.reopen(path, is_own=True)
    except (FfrfsError, OSError):
        if not or_none:
            raise
        log_there.reopen(os.devnull)


def _check_metrics_file(request: MountRequest) -> None:
    if request.metrics_file is not None:
        from ffrfs.mount.daemon.metrics_file import check_metrics_file

        check_metrics_file(request.metrics_file)


def _to_keep(  # noqa: PLR0913 - all that makes the mount
    request: MountRequest,
    engine: Engine,
    mount: MountHandle,
    *,
    memory: MemoryLimit,
    is_foreground: bool,
    before: KeptMount | None,
) -> KeptMount | None:
    """Return the state for the next daemon, None if none can go on; `before`: this daemon's own."""
    if not isinstance(engine, LastingEngine):
        return None
    return KeptMount(
        request=request,
        state=mount.state,
        entry=mount.entry,
        connection=mount.connection,
        engine=engine.kept(),
        base_bytes=memory.base_bytes,
        is_foreground=is_foreground,
        daemon_starts=0 if before is None else before.daemon_starts + 1,
        guardian=None if before is None else before.guardian,
        sweeper=None if before is None else before.sweeper,
    )


@contextlib.contextmanager
def _descriptors_kept() -> Iterator[None]:
    """Reserve descriptors for the loop, whatever else takes descriptors meanwhile."""
    kept: list[int] = []
    try:
        for _ in range(_LOOP_COUNT):
            kept.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        yield
    finally:
        for fd in kept:
            os.close(fd)
