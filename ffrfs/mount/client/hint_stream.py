"""One client's hints on their way to the process that serves a mount.

The daemon is asked over its control socket ({"command": "prefetch"}); when it has agreed,
the connection leads to the process that reads the pack, and carries hints alone (hint_paths.py), a
zero byte after each. The answer says how large a file may be to be read ahead; no other answer
comes. While that process needs no more hints, it does not read the connection, and sending
waits. An empty hint says that these were all, and that they hold after this client has ended.
Without it, the end of the connection says that the client has died, and its hints are dropped.

The kernel takes a file's bytes only if it knows the file. So a thread looks each path up, ahead
of the reader, whose own lookup then costs nothing. A mount that is slow to answer holds up that
thread alone.

Concurrency: one thread; stop() from any. A forked child keeps no part of a connection, because
its parent's death must end the connection.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import socket
import stat
import threading
import time
from collections.abc import Callable, Sequence

from ffrfs.errors import MountError
from ffrfs.mount.client import control_client

# At most so many paths wait to be looked up; the reader looks up the others.
_LOOKUPS_MAX = 16384
# How long to wait for a worker that takes over from a dead one, and between attempts.
_AGAIN_LIMIT_S, _AGAIN_S = 2.0, 0.05
# A path in a record's own directory (TFRecord): looking it up needs the record's bytes.
_IN_RECORD = re.compile(rb"/+[0-9]{9,}/+[^/]")

_streams: set[HintStream] = set()
# Held while a stream begins or ends, so that a fork waits for it.
_lock = threading.RLock()  # a signal handler may fork where its thread has the lock


class HintStream:
    """A connection to the mount at `mountpoint`."""

    def __init__(self, mountpoint: str) -> None:
        """Raises as control_client.ask() does."""
        self._mountpoint = mountpoint
        with _lock:
            self._client, limits = control_client.connect(mountpoint, "prefetch")
            _streams.add(self)
        self._is_stopped = False
        self._starts = limits.get("worker_starts")  # of replacements; None: it has no worker
        self._size_max = limits.get("file_bytes_max")
        self._lookups = _Lookups(os.fsencode(mountpoint), self._size_max)

    @property
    def notice(self) -> str | None:
        """Return a line that says how many hinted files are too large, if any are."""
        count = self._lookups.too_large_count
        if count == 0:
            return None
        return (
            f"{self._mountpoint}: {count:,} of the hinted files {'is' if count == 1 else 'are'} "
            f"larger than {self._size_max:,} bytes, an eighth of the mount's --cache-mb, and not "
            "read ahead"
        )

    @property
    def missing(self) -> tuple[int, bytes]:
        """Return how many of the paths that were looked up do not exist, and the first of them."""
        return self._lookups.missing_count, self._lookups.first_missing

    def send(self, hints: Sequence[bytes]) -> None:
        """Send hints; wait while the mount reads none. MountError: it takes no hints any more."""
        self._lookups.put(hints)
        self._converse(lambda: self._client.sendall(b"".join([hint + b"\0" for hint in hints])))

    def finish(self) -> None:
        """Tell the mount that these were all, and wait until it has read them."""
        self._converse(self._finish)
        self._lookups.finish()

    def _finish(self) -> None:
        self._client.sendall(b"\0")
        self._client.shutdown(socket.SHUT_WR)
        # If the other end is closed with unread hints, the connection is reset.
        while self._client.recv(4096):
            pass

    def stop(self) -> None:
        """Make a waiting send() or finish() fail, and let the mount drop all hints."""
        self._is_stopped = True
        with contextlib.suppress(OSError):  # this end or the other is closed
            self._client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._lookups.drop()
        with _lock:
            self._client.close()
            _streams.discard(self)

    def _converse(self, act: Callable[[], None]) -> None:
        """Run the action, and once more with the next worker if that of the connection has died."""
        try:
            return act()
        except OSError:
            pass
        deadline_s = time.monotonic() + _AGAIN_LIMIT_S
        while self._starts is not None and not self._is_stopped and time.monotonic() < deadline_s:
            with contextlib.suppress(OSError):  # the mount has ended, or no worker serves yet
                if self._follow_next():
                    return act()
            time.sleep(_AGAIN_S)
        raise MountError(
            f"{self._mountpoint}: takes no more hints: it has ended, or has too many clients"
        )

    def _follow_next(self) -> bool:
        """Connect to the worker that has taken over; False: none has. Raises MountError."""
        with _lock:
            client, limits = control_client.connect(self._mountpoint, "prefetch")
            if limits.get("worker_starts") == self._starts:
                client.close()
                return False
            self._client.close()
            self._client = client
        if self._is_stopped:  # perhaps by a stop() that has shut down the previous connection
            self.stop()
        self._starts = limits.get("worker_starts")
        return True


class _Lookups:
    """A thread that looks files up, so that the kernel knows them; it starts with the first."""

    def __init__(self, mountpoint: bytes, size_max: object) -> None:
        self._mountpoint = mountpoint
        # The largest file that can be read ahead; an older daemon does not say.
        self._size_max = size_max if isinstance(size_max, int) else None
        # Only the thread changes these.
        self.too_large_count = self.missing_count = 0
        self.first_missing = b""
        self._pieces: queue.SimpleQueue[Sequence[bytes]] = queue.SimpleQueue()
        self._put_count = 0  # only the sender changes it
        self._done_count = 0  # only the thread changes it
        self._is_dropped = False
        self._thread = threading.Thread(target=self._run, name="ffrfs-lookups", daemon=True)

    def put(self, hints: Sequence[bytes]) -> None:
        paths = [hint for hint in hints if hint[:1] == b"/" and not _IN_RECORD.match(hint)]
        if not paths or self._put_count - self._done_count + len(paths) > _LOOKUPS_MAX:
            return
        self._put_count += len(paths)
        self._pieces.put(paths)
        if self._thread.ident is None:
            self._thread.start()

    def finish(self) -> None:
        """Wait until all paths have been looked up."""
        if self._thread.ident is not None:
            self._pieces.put([])
            self._thread.join()

    def drop(self) -> None:
        self._is_dropped = True
        self._pieces.put([])

    def _run(self) -> None:
        while (paths := self._pieces.get()) and not self._is_dropped:
            for path in paths:
                if self._is_dropped:
                    return
                try:
                    self._note_size(os.lstat(self._mountpoint + path))
                except (FileNotFoundError, NotADirectoryError):
                    self._note_missing(path)
                except OSError:  # a hint may be any path
                    pass
            self._done_count += len(paths)

    def _note_missing(self, path: bytes) -> None:
        if not self.missing_count:
            if not os.path.ismount(self._mountpoint):  # the mount has ended meanwhile
                return
            self.first_missing = path
        self.missing_count += 1

    def _note_size(self, status: os.stat_result) -> None:
        if self._size_max is not None and stat.S_ISREG(status.st_mode):
            self.too_large_count += status.st_size > self._size_max


def _leave_to_parent() -> None:
    for stream in _streams:
        stream._client.close()
    _streams.clear()
    _lock.release()


os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_leave_to_parent
)
