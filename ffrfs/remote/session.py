"""The fetcher of a program that uses the Python API, from its first URL to its end.

After use_urls(), the native module gets a link here whenever it needs one: at its first URL,
after a fetcher has died, and in a child after fork(). So a fetcher that is killed causes a delay
for readers, and no error.

The messages of the fetcher go to the logger "ffrfs.remote".

Not here: starting and ending processes (process.py); the fetcher of a mount, which its
daemon starts (ffrfs.mount).
Concurrency: any thread. For each fetcher a thread copies its log.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading

from ffrfs.remote.process import FetcherProcess, copy_log
from ffrfs.remote.settings import RemoteSettings

log = logging.getLogger("ffrfs.remote")


class Session:
    """The owner of this process's fetcher, which starts at the first link."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: FetcherProcess | None = None
        self.settings: RemoteSettings | None = None  # None: from the environment
        # A lock that another thread holds at fork() would stay locked in the child.
        os.register_at_fork(
            before=self._lock.acquire,
            after_in_parent=self._lock.release,
            after_in_child=self._lock.release,
        )

    def get_link(self) -> int:
        """Return a new link; the caller owns it. Raises RemoteError, OptionError."""
        with self._lock:
            if self._process is None:
                settings = self.settings or RemoteSettings.from_environment()
                self._process = FetcherProcess(settings, _copy_log)
                atexit.register(self._forget)
            return self._process.link()

    @property
    def pid(self) -> int | None:
        """The process id of the fetcher, if this process has started it."""
        return None if self._process is None else self._process.pid

    def configure(self, settings: RemoteSettings) -> None:
        """Use these settings for new links; existing links keep their fetcher."""
        with self._lock:
            self.settings = settings
            if self._process is not None:
                self._process.close()
                self._process = None

    def _forget(self) -> None:
        if self._process is not None:
            self._process.forget()


session = Session()


def use_urls(settings: RemoteSettings | None = None) -> None:
    """Let the native module open URLs from now on. The default settings are the environment's."""
    from ffrfs import _native

    if settings is not None:
        session.configure(settings)
    chosen = session.settings or RemoteSettings.from_environment()
    _native.set_remote(session.get_link, chosen.timeout_s)


def _copy_log(pipe: int) -> None:
    thread = threading.Thread(target=copy_log, args=(pipe, log), name="fetcher's log", daemon=True)
    thread.start()
