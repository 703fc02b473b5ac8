"""ffrfs.prefetch(): a program says in which order it will read files of a mount.

Hints are advice. A thread sends them, so neither a mount that has enough for now nor one that
has ended ever holds up the program.

Not here: the text of a hint (hint_paths.py), sending it (hint_stream.py).
Concurrency: a Hints may be used by any thread. A forked child has no part in it.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Iterable, Iterator, Sequence, Sized
from queue import SimpleQueue
from types import TracebackType

from ffrfs.errors import MountError, describe
from ffrfs.mount.client.hint_paths import Hinted, HintPaths, PathType
from ffrfs.mount.client.hint_stream import HintStream
from ffrfs.mount.kernel.mountpoint import canonical

_PIECE_COUNT = 256
_LOOK_TIMEOUT_S = 5.0  # a daemon that hangs delays the first look

log = logging.getLogger(__name__)


def prefetch(paths: Iterable[Hinted], mountpoint: PathType | None = None) -> Hints:
    """Tell a mount which files will be read, in that order, so that it reads them ahead.

    `paths`: any number, also numbers of records. prefetch() returns at once, and a thread
    consumes the iterable; an iterable without a length may take its time, and every path is
    sent as it comes. A relative path begins in the mount's root, or, without `mountpoint`, in
    the working directory; the mount is then that of the first path that is in one, and numbers
    are understood from there on. Paths that are not in the mount are passed over.

    The hints hold until they are followed, Hints.close(), or the end of this process. Raises
    MountError if nothing of ffrfs is mounted (there), or its daemon does not answer.
    """
    if isinstance(paths, str | bytes | os.PathLike):
        raise TypeError(f"paths must be a sequence of paths, not one path: {paths!r}")
    return Hints(_pieces(paths), mountpoint)


def _pieces(paths: Iterable[Hinted]) -> Iterator[list[Hinted]]:
    # An iterable with a length is in memory. Any other may be slow, so each path is sent alone.
    count = _PIECE_COUNT if isinstance(paths, Sized) else 1
    iterator = iter(paths)
    while piece := list(itertools.islice(iterator, count)):
        yield piece


class Hints:
    """Hints on their way; made by prefetch(). A context manager: closed at its end.

    If it is forgotten, and not closed, its hints are sent to the end, and followed while useful.
    """

    def __init__(
        self, pieces: Iterable[Sequence[Hinted]], mountpoint: PathType | None = None
    ) -> None:
        """`pieces`: lists of paths or numbers, each sent as a whole. Raises as prefetch() does."""
        place = None if mountpoint is None else canonical(os.fsdecode(mountpoint))
        paths = HintPaths(place)
        if place is None and not paths.has_mounts:
            raise MountError("none of the paths is in an ffrfs mount")
        stream = None if place is None else HintStream(place)
        self._sender = _Sender(pieces, paths, stream)
        self._pid = os.getpid()
        threading.Thread(target=self._sender.run, name="ffrfs-hints", daemon=True).start()

    @property
    def sent(self) -> int:
        """Return how many hints were sent so far."""
        return self._sender.sent

    @property
    def skipped(self) -> int:
        """Return how many name nothing that could be in the mount."""
        return self._sender.skipped

    def all_skipped(self) -> bool:
        """Return whether all so far name nothing in the mount.

        Waits until the thread has looked at one, for at most 5 s. False in a forked child.
        """
        if os.getpid() != self._pid:
            return False
        self._sender.has_looked.wait(_LOOK_TIMEOUT_S)
        return self.skipped > 0 and not self._sender.has_found

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until all were sent; return False if they were not by then, or were dropped.

        Raises MountError if the mount has ended before, or the exception that the iterable raised.
        """
        if os.getpid() != self._pid:
            return False
        return self._sender.wait(timeout_s)

    def close(self) -> None:
        """Drop the hints that were not read yet. Never waits. Does nothing in a forked child."""
        if os.getpid() == self._pid:
            self._sender.close()

    def __enter__(self) -> Hints:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_sender"):
            self._sender.let_go()


class _Sender:
    """The work of the thread. It holds no reference to Hints, so that they can be forgotten."""

    def __init__(
        self, pieces: Iterable[Sequence[Hinted]], paths: HintPaths, stream: HintStream | None
    ) -> None:
        self.sent = 0
        self.skipped = 0
        self.has_found = False
        self.has_looked = threading.Event()  # at one piece, or it will look at none
        self._pieces = pieces
        self._paths = paths
        self._stream = stream  # None: the mount is not known yet
        self._is_closed = False
        self._is_complete = False
        self._failure: Exception | None = None
        self._is_over = threading.Event()
        # Whether the hints hold when their stream has ended. A SimpleQueue, because destructors
        # put into it, which may run anywhere.
        self._wishes: SimpleQueue[bool] = SimpleQueue()

    def run(self) -> None:
        try:
            self._send()
            self._is_complete = not self._is_closed
            self._is_over.set()
            self.has_looked.set()
            if self._wishes.get() and self._stream is not None:
                self._stream.finish()
        except Exception as error:
            if not self._is_closed:
                self._fail(error)
        finally:
            if self._stream is not None:
                self._stream.close()
                if self._stream.notice is not None:
                    log.warning("%s", self._stream.notice)
            self._is_over.set()
            self.has_looked.set()

    def _send(self) -> None:
        for piece in self._pieces:
            hints = [hint for hint in map(self._paths.hint, piece) if hint is not None]
            if self._stream is None and self._paths.mountpoint is not None:
                self._stream = HintStream(self._paths.mountpoint)
            if self._is_closed:
                return
            self.skipped += len(piece) - len(hints)
            self.has_found |= bool(hints)
            self.has_looked.set()
            if hints:
                assert self._stream is not None
                self._stream.send(hints)
                self.sent += len(hints)

    def _fail(self, error: Exception) -> None:
        if self._is_complete:
            return  # all were sent, and the mount has ended
        self._failure = error
        unforeseen = not isinstance(error, MountError)
        log.warning("no more hints: %s", describe(error), exc_info=unforeseen)

    def wait(self, timeout_s: float | None) -> bool:
        self._is_over.wait(timeout_s)
        if self._failure is not None:
            raise self._failure
        return self._is_complete

    def close(self) -> None:
        self._is_closed = True
        self._wishes.put(False)
        if self._stream is not None:
            self._stream.stop()

    def let_go(self) -> None:
        self._wishes.put(True)
