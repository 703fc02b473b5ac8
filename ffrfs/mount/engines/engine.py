"""The interface of the engines for the daemon.

An engine opens the packs, and then answers the kernel's requests on a connection that
the daemon made (kernel_mount.attach). It knows nothing of mount points, signals or
readiness. Not here: which engine a mount gets (engine_factory.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from ffrfs.mount.engines.counter_page import Counters
from ffrfs.mount.engines.kept_engine import KeptEngine
from ffrfs.mount.engines.read_failures import ReadFailures
from ffrfs.mount.engines.worker_deaths import WorkerDeaths


class Engine(Protocol):
    """Serves one tree on one connection."""

    name: str
    # Whether it was allowed to make rings of io_uring, even if it made none.
    may_use_rings: bool
    # Warnings for the user about packs that were opened: one line each.
    notices: list[str]
    # The files that could not be read; counters() has the number of failures.
    failures: ReadFailures

    @property
    def page(self) -> int | None:
        """The file with the counters and notes of the worker; None if there is no worker."""
        ...

    @property
    def deaths(self) -> WorkerDeaths | None:
        """The deaths of its workers; None: it has no worker."""
        ...

    @property
    def refusal(self) -> str | None:
        """Why all requests fail since its workers died in a row; None: they do not."""
        ...

    @property
    def worker_pid(self) -> int | None:
        """The pid of the process that serves; None: the daemon serves itself, or it has died."""
        ...

    @property
    def fetcher_pid(self) -> int | None:
        """The pid of the process that fetches bytes from servers; None if there is none."""
        ...

    @property
    def transport(self) -> str:
        """The present transport of the kernel's requests: "uring" or "dev" (/dev/fuse alone)."""
        ...

    def counters(self) -> Counters:
        """Return the engine's counters so far (native/stats/counters.h, request_times.h).

        They include those of its fetcher, if it has one (ffrfs/remote/fetch_counters.py).
        """
        ...

    def connect(self, connection: int) -> bool:
        """Give the connection to a process that serves; the caller keeps its own descriptor.

        Return True if requests are answered from now on, False if serve() must run for that.
        Call it once, before serve().
        """
        ...

    async def serve(self, connection: int, abort: Callable[[], None]) -> None:
        """Answer requests until the kernel ends the connection, when the last user is gone.

        Takes ownership of the descriptor. Cancelling it ends the connection: readers get
        ENOTCONN. Raises MountError if it cannot go on; after other errors the connection of a
        LastingEngine goes on. `abort` ends the connection by
        force, if it has not ended: a thread that gives the kernel bytes (prefetch) waits
        there for pages that are locked by reads, which get no answer any more.
        """
        ...

    def restart(self) -> None:
        """Let a new worker take over, while it serves. Never waits: `deaths` shows the result.

        Raises MountError if it has no worker.
        """
        ...

    def take_hints(self, client: int) -> None:
        """Follow the hints of a client on the connected socket `client` (hint_stream.py).

        Never waits. The caller keeps its descriptor, and closes it.
        """
        ...

    def fill_cache(self) -> None:
        """Let the fetcher, if there is one, fetch all of the packs into the cache on disk.

        Never waits.
        """
        ...

    def limit_cache(self, size_bytes: int) -> None:
        """Hold at most `size_bytes` from now on, which may be less or more than before.

        Bytes beyond are dropped, first those that no reader requested. Never waits for a disk.
        """
        ...

    def warm(self, ino: int) -> None:
        """Push all files at and below the inode that the kernel knows. Never waits."""
        ...

    def limit_pushed(self, size_bytes: int) -> None:
        """Limit the bytes in the kernel's page cache that were pushed and not read yet.

        Before the first call only hints push bytes. Never waits.
        """
        ...

    def close(self) -> None:
        """Close the packs, even if nothing was ever served."""
        ...


@runtime_checkable
class LastingEngine(Engine, Protocol):
    """An engine whose worker serves on when the daemon has died, until the next one follows it."""

    def kept(self) -> KeptEngine:
        """Return the state for the mount's next daemon; its descriptors stay the engine's."""
        ...

    def kill_worker(self, cause: str) -> None:
        """Kill the worker at once, while it serves; another one follows.

        `cause` is for the figures.
        """
        ...

    def tell_changes(self, tell: Callable[[], None]) -> None:
        """Call `tell` from the loop each time after kept() has changed."""
        ...
