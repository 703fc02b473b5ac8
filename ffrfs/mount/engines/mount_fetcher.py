"""The fetcher of one mount: started before the packs are opened, and again whenever it has died.

Either engine has one if a pack is at a URL, or behind a cache. The fetcher talks to the servers,
and the engine sees blocks arrive in files (ffrfs.remote).

Concurrency: a thread for each fetcher copies its log; when the log ends, so has the fetcher, and
the thread starts another one and hands over its link. The rest runs on the thread that opens the
engine. Not here: the fetcher itself (ffrfs/remote/object_fetcher.py), the engines' use of a link.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from ffrfs.errors import describe
from ffrfs.files.closing import closing_fd
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.engines.counter_page import Counters
from ffrfs.mount.engines.kept_engine import KeptEngine
from ffrfs.remote.pace import flight_size
from ffrfs.remote.process import FetcherProcess, copy_log
from ffrfs.remote.url import is_url

_PAUSE_S, _PAUSE_MAX_S = 0.05, 5.0

log = logging.getLogger(__name__)


class MountFetcher:
    """The owner of a mount's fetcher, until close()."""

    def __init__(self, request: MountRequest, kept: KeptEngine | None = None) -> None:
        """Start the fetcher. `kept`: the state that the last daemon left. Raises OptionError."""
        before = None if kept is None else kept.descriptors.get("fetched")
        self._lock = threading.Lock()  # guards the three below
        self._bring: Callable[[int], None] | None = None
        self._has_changed = False  # another fetcher has taken over since link_for_next()
        self._is_closed = False
        self._pause_s = _PAUSE_S
        self._is_filling = request.is_filling
        self._process = FetcherProcess(
            request.remote_settings(),
            self._follow_log,
            request.signed,
            flight_size(request.max_memory_bytes),
            # An attacker who controls the worker can open no other URL, and no other file.
            roots=[request.signed.get(pack, pack) for pack in request.packs if is_url(pack)],
        )
        if before is not None:
            self._process.counters.go_on_from(before)
            os.close(before)
        try:
            self._process.start()
        except BaseException:
            self._process.close()
            raise
        if self._is_filling:
            self._process.fill()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def counters(self) -> Counters:
        return self._process.counters.rows()

    def kept(self) -> dict[str, int]:
        """Return the descriptors for the next daemon, by their names in KeptEngine.descriptors."""
        return {"fetched": self._process.page}

    def link(self) -> int:
        """Return a descriptor of a new link, which the caller owns. Raises RemoteError."""
        return self._process.link()

    def fill(self) -> None:
        """Fetch all of the packs into the cache, in the background."""
        self._is_filling = True
        self._process.fill()

    def bring_links_to(self, bring: Callable[[int], None]) -> None:
        """Call `bring` with a link to each fetcher that takes over; `bring` must not close it.

        It is called at once if a fetcher has taken over since link_for_next(). Raises RemoteError.
        """
        with self._lock:
            self._bring = bring
            if self._has_changed:
                self._bring_link(self._process.link())

    def link_for_next(self) -> int:
        """Return a link as link() does, for a client that replaces the present one.

        From now on until bring_links_to(), no other link is brought.
        """
        with self._lock:
            self._bring, self._has_changed = None, False
            return self._process.link()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._bring = None
        self._process.close()

    def _follow_log(self, pipe: int) -> None:
        words = (pipe, self._process.pid)
        threading.Thread(target=self._follow, args=words, name="fetcher", daemon=True).start()

    def _follow(self, pipe: int, pid: int | None) -> None:
        began_s = time.monotonic()
        copy_log(pipe, log)
        if self._is_closed:
            return
        log.error("the fetcher has ended; another one takes over")
        # A fetcher that ends at once is restarted only after growing pauses.
        if time.monotonic() - began_s > _PAUSE_MAX_S:
            self._pause_s = _PAUSE_S
        while not self._is_closed:
            self._pause_s = min(2 * self._pause_s, _PAUSE_MAX_S)
            time.sleep(self._pause_s)
            if self._take_over(pid):
                return

    def _take_over(self, pid: int | None) -> bool:
        """Start another fetcher; return False if that fails now."""
        with self._lock:
            if self._is_closed:
                return True
            try:
                # The log of the old fetcher ends a moment before its process does.
                link = self._process.link(but=pid)
            except (OSError, RuntimeError) as error:  # RuntimeError: there is no thread for its log
                log.error("%s", describe(error))
                return False
            if self._is_filling:
                self._process.fill()
            self._bring_link(link)
            return True

    def _bring_link(self, link: int) -> None:
        self._has_changed = True
        with closing_fd(link), suppress(OSError):  # a worker's end is noticed by other means
            if self._bring is not None:
                self._bring(link)


class FetchingHere(MountFetcher):
    """A MountFetcher for a process that opens the packs itself, and asks for links."""

    def __init__(self, request: MountRequest) -> None:
        from ffrfs._native import replace_link, set_remote

        super().__init__(request)
        set_remote(self.link, request.remote_settings().timeout_s)
        # The link is set even if no read asks for one: the next fetcher may have to fill the cache.
        self.bring_links_to(lambda link: replace_link(os.dup(link)))

    def close(self) -> None:
        from ffrfs._native import set_remote

        set_remote(None, 1)
        super().close()


def fetching_bytes(max_memory_bytes: int | None) -> int:
    """Return the largest number of bytes of a fetcher beside those at its start."""
    return 2 * flight_size(max_memory_bytes)  # obstore assembles pieces, and so holds each twice
