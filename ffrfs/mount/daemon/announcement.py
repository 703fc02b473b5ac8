"""Announces that a mount can be read: to the log, the service manager, and the waiting caller.

The tree itself is asked first. An engine with a worker process answers before the daemon's loop
runs, so the caller need not wait for the loop, whose modules take as long to import as all the
rest of mounting. Other engines answer once the loop runs, and so does a slow disk.

Concurrency: find_out() may wait for ever, as the mount does, and is for a thread. make() is
called once, from the main thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable

from ffrfs.errors import FfrfsError, MountError, describe
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.daemon.mount_handle import MountHandle
from ffrfs.mount.daemon.notify import Notifier
from ffrfs.mount.engines.engine import Engine
from ffrfs.mount.kernel import kernel_mount

EARLY_LIMIT_S = 1.0  # for an answer before the loop runs, because only the loop obeys signals
_USED_LIMIT_S = 0.05  # of a mount in use, whose worker may be dead until the loop runs

log = logging.getLogger(__name__)

Ready = Callable[[list[str]], None]


class Announcement:
    """Announces a mount. `ready` gets the engine's notices; OSError from it: the caller is gone."""

    def __init__(
        self,
        request: MountRequest,
        engine: Engine,
        mount: MountHandle,
        notifier: Notifier,
        ready: Ready,
    ) -> None:
        self.is_made = False
        self.is_heard = True  # until `ready` fails because the caller is gone
        self._entry_count: int | None = None  # None: not known yet
        self._request = request
        self._engine = engine
        self._device = mount.entry.device
        self._notifier = notifier
        self._ready = ready

    @property
    def status(self) -> str:
        """Return the text for the service manager."""
        engine = f"engine {self._engine.name}, transport {self._engine.transport}"
        text = f"{self._request.title} at {self._request.mountpoint}, {engine}"
        return text if self._entry_count is None else f"{text}, {self._entry_count:,} entries"

    def find_out(self) -> None:
        """Ask the tree. Raises OSError, and MountError if the mount is gone."""
        place = self._request.mountpoint
        look_into(place, self._device)
        if self._notifier.is_active:
            self._entry_count = os.statvfs(place).f_files

    def make_early(self, *, is_announced: bool) -> None:
        """Make the announcement now if the tree answers soon and well; else the loop makes it.

        `is_announced`: an earlier daemon has made it. Then nothing depends on the answer: reads
        that fail, or wait for a disk, must not end a mount that is in use.
        """
        answered = threading.Event()

        def ask() -> None:
            with contextlib.suppress(OSError, FfrfsError):
                self.find_out()
                answered.set()

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(_USED_LIMIT_S if is_announced else EARLY_LIMIT_S)
        if answered.is_set() or is_announced:
            self.make()

    def make(self) -> None:
        """Announce the mount."""
        self.is_made = True
        self._raise_readahead()
        place = self._request.mountpoint
        title, engine, transport = self._request.title, self._engine.name, self._engine.transport
        log.info("%s: mounted at %s, engine %s, transport %s", title, place, engine, transport)
        for notice in self._engine.notices:
            log.warning("%s", notice)
        self._notifier.ready(self.status)
        try:
            self._ready(self._engine.notices)
        except OSError:
            self.is_heard = False

    def _raise_readahead(self) -> None:
        # It cannot be raised earlier: the answer to the kernel's first request lowers it again.
        try:
            kernel_mount.raise_readahead(self._device)
        except OSError as error:
            log.info("large files are read in small pieces: %s", describe(error))


def look_into(mountpoint: str, device: str) -> None:
    """Read from the tree at `mountpoint`. Raises MountError if it is not the mount of `device`."""
    # A user may hide the tree from themselves (umask=, uid=): a refusal is an answer, too.
    with contextlib.suppress(PermissionError), os.scandir(mountpoint) as entries:
        next(entries, None)
    # The device is compared last: if the mount has ended, the directory below it was read.
    found = os.stat(mountpoint).st_dev
    if f"{os.major(found)}:{os.minor(found)}" != device:
        raise MountError(f"{mountpoint}: is not mounted any more")
