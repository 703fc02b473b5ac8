"""Starts a fetcher, makes links to it, and starts another one when it has ended.

The fetcher starts at the first link. It gets its settings through a pipe, and our environment: no
secret is on its command line. It ends when all processes that hold its hub have closed it, so it
does not outlive them, however they end.

After fork(), a child can make links as its parent does: they share the hub. If the fetcher has
ended, the child starts its own.

Not here: the fetcher itself (object_fetcher.py), the owner of a program's fetcher (session.py).
Concurrency: any thread; a lock is held while a fetcher is started, but not until it is ready.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from ffrfs.errors import RemoteError, describe, naming
from ffrfs.files.interpreter import interpreter, starting_process
from ffrfs.remote.fetch_counters import PAGE_SIZE, FetchCounters
from ffrfs.remote.pace import FLIGHT_SIZE_MAX
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.start import Start

_END_S = 1.0
# Attempts to make a link: a fetcher may be killed before it receives the link.
_ATTEMPTS = 5
# glibc must keep the memory of ranges, and not return it to the kernel each time. This saves a
# tenth of the fetcher's CPU time, and a third of its memory. OpenBLAS must not start a thread for
# each core when NumPy loads: each spins for 60 ms.
_FETCHER_SETTINGS = {
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "33554432",
    "MALLOC_TRIM_THRESHOLD_": "536870912",
}
_FD = struct.Struct("i")
_LEVELS = {"<3>": logging.ERROR, "<4>": logging.WARNING, "<6>": logging.INFO}
_LINE_SIZE_MAX = 4096


class FetcherProcess:
    """The owner of one running fetcher at a time."""

    def __init__(
        self,
        settings: RemoteSettings,
        take_log: Callable[[int], None],
        signed: Mapping[str, str] = MappingProxyType({}),
        flight_size: int = FLIGHT_SIZE_MAX,
        *,
        roots: Iterable[str] | None = None,
    ) -> None:
        """`take_log` gets a pipe at each start, for copy_log() in a thread.

        `flight_size`: how many bytes may be in flight; a cache in memory holds twice as many.
        `signed` and `roots` are those of Start.
        """
        allowed = None if roots is None else frozenset(roots)
        self._start = Start(settings, dict(signed), flight_size, allowed).to_json()
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._hub: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._page = _make_page()
        self._is_closed = False
        self._take_log = take_log
        self.counters = FetchCounters(self._page)

    @property
    def pid(self) -> int | None:
        """The process id of the fetcher that this process started last."""
        return None if self._process is None else self._process.pid

    @property
    def page(self) -> int:
        """The descriptor of the page of counters, until close()."""
        return self._page

    def link(self, but: int | None = None) -> int:
        """Return the descriptor of a new link; the caller owns it. Starts a fetcher if none runs.

        `but`: the pid of a fetcher that has ended, or is about to; it gets no link any more.
        Raises RemoteError; its cause may be a shortage (is_shortage()).
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._hand_over(theirs, but)
            except OSError as error:
                ours.close()
                raise RemoteError(f"the fetcher cannot be started: {describe(error)}") from error
            except BaseException:
                ours.close()
                raise
        return ours.detach()

    def fill(self) -> None:
        """Let the running fetcher fetch all open objects into the cache."""
        with self._lock, contextlib.suppress(OSError):  # the fetcher may have ended
            if self._hub is not None:
                self._hub.send(b"f", socket.MSG_DONTWAIT)

    def start(self) -> None:
        """Start a fetcher if none runs."""
        with self._lock:
            if self._hub is None or self._has_ended():
                self._restart()

    def forget(self) -> None:
        """Close the hub without waiting for the fetcher's end, when this process ends.

        Functions of atexit that run later may still read: link() starts another fetcher for them.
        """
        with self._lock:
            if self._process is not None:
                self._process.returncode = 0
            self._let_go()

    def close(self) -> None:
        """Close the hub, and wait for the fetcher's end; a child after fork() does not wait."""
        with self._lock:
            self._let_go()
            if not self._is_closed:
                os.close(self._page)
                self._is_closed = True

    def _hand_over(self, theirs: socket.socket, but: int | None) -> None:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, _FD.pack(theirs.fileno()))
        with self._lock:
            for attempt in range(1, _ATTEMPTS + 1):
                if self._hub is None or self.pid == but:
                    self._restart()
                assert self._hub is not None
                try:
                    # send_fds() ignores flags, and a fetcher that is stopped must not block the
                    # caller.
                    self._hub.sendmsg([b"c"], [rights], socket.MSG_DONTWAIT)
                    return
                except ConnectionError:
                    if attempt == _ATTEMPTS:
                        raise
                    self._restart()

    def _has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def _restart(self) -> None:
        self._let_go()
        python = interpreter("the fetcher", RemoteError)
        with contextlib.ExitStack() as failed, contextlib.ExitStack() as theirs:
            hub, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            failed.enter_context(hub)
            theirs.enter_context(end)
            settings_end, settings_fd = os.pipe()
            theirs.callback(os.close, settings_end)
            settings = failed.enter_context(open(settings_fd, "wb"))
            log, log_end = os.pipe()
            theirs.callback(os.close, log_end)
            failed.callback(os.close, log)
            fds = (end.fileno(), settings_end, self._page)
            with starting_process():
                self._process = subprocess.Popen(
                    # -P: a module in the current directory must not replace ours.
                    [python, "-P", "-m", "ffrfs.remote.object_fetcher", *map(str, fds)],
                    pass_fds=fds,
                    env=_FETCHER_SETTINGS | os.environ,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log_end,
                    start_new_session=True,  # signals of the caller's terminal do not reach it
                )
            failed.callback(self._process.kill)
            self._take_log(log)
            failed.pop_all()
        # If the fetcher ends at once, its hub shows it later.
        with contextlib.suppress(BrokenPipeError), settings:
            settings.write(self._start.encode())
        self._owner = os.getpid()
        self._hub = hub

    def _let_go(self) -> None:
        if self._hub is not None:
            self._hub.close()
            self._hub = None
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        if self._owner != os.getpid():
            process.returncode = 0  # the fetcher is a child of our parent, which waits for it
            return
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()  # a child of ours holds its hub, or it waits for a disk
            # It may still wait for a disk, so a thread waits for its end.
            threading.Thread(target=process.wait, name="end of fetcher", daemon=True).start()


def copy_log(pipe: int, log: logging.Logger) -> None:
    """Log the lines of a fetcher until it ends, and close the pipe."""
    with open(pipe, encoding="utf-8", errors="backslashreplace") as lines:
        while line := lines.readline(_LINE_SIZE_MAX):
            level = _LEVELS.get(line[:3])
            text = line if level is None else line[3:]
            log.log(logging.ERROR if level is None else level, "%s", text.rstrip("\n"))


def _make_page() -> int:
    page = os.memfd_create("ffrfs-fetcher", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with naming("a file in memory for counters"):
        os.truncate(page, PAGE_SIZE)
    fcntl.fcntl(page, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    return page
