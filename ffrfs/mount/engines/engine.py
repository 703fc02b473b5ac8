"""What every engine offers the daemon.

An engine opens the packs, and then answers the kernel's requests on a connection that
the daemon made (kernel_mount.attach). It knows nothing of mount points, signals or
readiness. Not here: which engine a mount gets (engine_factory.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ffrfs.mount.engines.counter_page import Counters
from ffrfs.mount.engines.read_failures import ReadFailures


class Engine(Protocol):
    """Serves one tree on one connection."""

    name: str
    # Whether it was allowed to make rings of io_uring, whatever became of that.
    may_use_rings: bool
    # What the user should know although the packs opened: one line each.
    notices: list[str]
    # The files that could not be read; their failures are counted in counters().
    failures: ReadFailures

    @property
    def worker_pid(self) -> int | None:
        """The process that serves; None: this one."""
        ...

    @property
    def fetcher_pid(self) -> int | None:
        """The process that brings bytes from servers; None: there is none."""
        ...

    @property
    def transport(self) -> str:
        """How the kernel's requests come to it now: "uring" or "dev" (/dev/fuse alone)."""
        ...

    def counters(self) -> Counters:
        """What it has done so far (native/stats/counters.h, request_times.h).

        And what its fetcher has, if it has one (ffrfs/remote/figures.py).
        """
        ...

    def connect(self, connection: int) -> bool:
        """Give the connection to a process that serves; it stays the caller's, too.

        True: requests are answered from now on; False: once serve() runs. To be called once,
        before serve().
        """
        ...

    async def serve(self, connection: int, abort: Callable[[], None]) -> None:
        """Answer requests until the kernel ends the connection (the last user is gone).

        Takes the descriptor over. Cancelling it ends the connection: readers get
        ENOTCONN. Raises MountError if it cannot go on. `abort` ends the connection by
        force, if it has not ended: a thread that gives the kernel bytes (prefetch) waits
        there for pages that reads hold, which get no answer any more.
        """
        ...

    def take_hints(self, client: int) -> None:
        """Follow the hints of a client on that connected socket (hint_stream.py).

        Never waits. The caller keeps its descriptor, and closes it.
        """
        ...

    def fill_cache(self) -> None:
        """Let its fetcher, if it has one, bring all of the packs into the cache on disk.

        Never waits.
        """
        ...

    def limit_cache(self, size_bytes: int) -> None:
        """Hold at most that from now on, less or more than before.

        What is beyond goes: first what was not asked for. Never waits for a disk.
        """
        ...

    def warm(self, ino: int) -> None:
        """Push all files at and below that inode which the kernel knows. Never waits."""
        ...

    def limit_pushed(self, size_bytes: int) -> None:
        """Let so much be in the kernel's page cache that was pushed and not read yet.

        Nothing before the first call, but for hints. Never waits.
        """
        ...

    def close(self) -> None:
        """Let go of the packs, also if nothing was ever served."""
        ...
