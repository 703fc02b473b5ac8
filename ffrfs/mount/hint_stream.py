"""One client's hints on their way to the process that serves a mount.

The daemon is asked over its control socket ({"command": "prefetch"}); when it has agreed,
the connection leads to whoever reads the pack, and carries hints alone (hint_paths.py), a
zero byte after each. Nothing comes back: while nobody there needs more, it is not read,
and sending waits. An empty hint says that these were all, and that they hold after this
client has gone. Without it, the end of the connection says that the client has died, and
its hints are dropped.

Concurrency: one thread; stop() from any. A child process that is forked gets no part of
a connection, or its parent's death would not end it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterable, Iterator

from ffrfs.errors import MountError
from ffrfs.mount import control_client

_streams: set[HintStream] = set()
# Held while a stream begins or ends; a fork waits for that.
_lock = threading.Lock()


class HintStream:
    """A connection to the mount at `mountpoint`."""

    def __init__(self, mountpoint: str) -> None:
        """Errors as control_client.ask()."""
        self._mountpoint = mountpoint
        with _lock:
            self._client = control_client.connect(mountpoint, "prefetch")
            _streams.add(self)

    def send(self, hints: Iterable[bytes]) -> None:
        """Wait until they are on their way. MountError: nobody takes hints any more."""
        with self._told_of_its_end():
            self._client.sendall(b"".join([hint + b"\0" for hint in hints]))

    def finish(self) -> None:
        """Say that these were all, and wait until they have been taken over."""
        with self._told_of_its_end():
            self._client.sendall(b"\0")
            self._client.shutdown(socket.SHUT_WR)
            # Closed there with hints unread, it would be reset.
            while self._client.recv(4096):
                pass

    def stop(self) -> None:
        """Let whoever waits in send() or finish() fail, and all hints be dropped."""
        with contextlib.suppress(OSError):  # closed, or its other end is
            self._client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with _lock:
            self._client.close()
            _streams.discard(self)

    @contextlib.contextmanager
    def _told_of_its_end(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            raise MountError(
                f"{self._mountpoint}: takes no more hints: it has ended, or has too many clients"
            ) from None


def _leave_to_parent() -> None:
    for stream in _streams:
        stream._client.close()
    _streams.clear()
    _lock.release()


os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_leave_to_parent
)
