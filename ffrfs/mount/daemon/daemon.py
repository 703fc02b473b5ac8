"""The process behind one mount: makes it, serves it, and ends with it.

The order is: open the log, open the packs, claim the mount point, mount, announce, serve; a
failed step undoes the steps before it. The modules of serving (server.py), above all trio, are
imported last: an engine with a worker process serves meanwhile.

Not here: going to the background (background.py), printing (ffrfs.cli).
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator

from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.daemon import signals
from ffrfs.mount.daemon.announcement import Announcement, Ready
from ffrfs.mount.daemon.log import journal_match, logging_to
from ffrfs.mount.daemon.memory_limit import MemoryLimit
from ffrfs.mount.daemon.mount_handle import make_mount
from ffrfs.mount.daemon.notify import Notifier
from ffrfs.mount.engines.engine_factory import open_engine
from ffrfs.mount.kernel import privileges, state
from ffrfs.mount.kernel.pack_versions import versions_of

# Descriptors for the loop, which begins when the mount is announced and must not fail any more.
_LOOP_COUNT = 16

log = logging.getLogger(__name__)


def serve(
    request: MountRequest,
    ready: Ready,
    *,
    foreground: bool = False,
    notifier: Notifier | None = None,
) -> None:
    """Mount, and serve until the mount is gone.

    Calls `ready` with the engine's notices once the tree answers; if `ready` raises OSError,
    the caller waits no more, and the mount is unmounted. The service manager gets the news
    first, through `notifier`, by default that of the environment. Raises the error that kept
    the mount from coming up, or from going on; nothing is left mounted then.
    """
    notifier = notifier or Notifier.from_environment()
    directory = state.runtime_directory()
    notices = privileges.drop()  # before any byte of a pack is read, and any thread started
    if request.metrics_file is not None:
        from ffrfs.mount.daemon.metrics_file import check_metrics_file

        check_metrics_file(request.metrics_file)
    has_own_log = request.log_file is None and not foreground
    with logging_to(request.log_file, is_kept=has_own_log) as log_there:
        versions = versions_of(request.packs)  # before they are opened
        engine = open_engine(request)
        engine.notices[:0] = notices
        try:
            memory = MemoryLimit(request, engine)
            engine.notices += memory.notices()
            with signals.held() as held_signals:
                own_log = state.log_path(directory, request.mountpoint) if has_own_log else None
                log_file = own_log or request.log_file
                journal = journal_match() if log_file is None else None
                mount = make_mount(request, directory, log_file, journal, versions)
                try:
                    # Not earlier: make_mount() first clears the place of a dead daemon's mount.
                    if own_log is not None:
                        log_there.reopen(own_log, is_own=True)
                    if mount.notice is not None:
                        log.warning("%s", mount.notice)
                    announcement = Announcement(request, engine, mount, notifier, ready)
                    with _descriptors_kept():
                        if engine.connect(mount.connection):
                            announcement.make_if_answered()
                    from ffrfs.mount.daemon.server import Server

                    server = Server(
                        request,
                        engine,
                        mount,
                        memory=memory,
                        announcement=announcement,
                        notifier=notifier,
                        log_there=log_there,
                        held_signals=held_signals,
                    )
                    server.serve()
                finally:
                    mount.take_away()
                    mount.control.close()
        finally:
            engine.close()


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
