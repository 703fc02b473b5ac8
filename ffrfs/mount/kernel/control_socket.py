"""The Unix socket over which a daemon gets requests: making it, and connecting to it.

Blocking, no state; from any thread. Not here: the messages (control_server.py).
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator

_BACKLOG = 16
_TIMEVAL = struct.Struct("ll")  # struct timeval: seconds, microseconds
_PEER = struct.Struct("iII")  # struct ucred: pid, uid, gid
_FOREVER = _TIMEVAL.pack(0, 0)


def listen(path: str) -> socket.socket:
    """Return a listening socket of that name, for our user alone; replaces an existing one."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Linux gives the file the mode that the socket has before it is bound.
        os.fchmod(listener.fileno(), 0o600)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        with _address(path) as address:
            listener.bind(address)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def connect(path: str, timeout_s: float) -> socket.socket:
    """Return a socket connected to the daemon; `timeout_s` limits each wait, also later ones.

    Raises TimeoutError if too many other clients wait; other OSErrors if no daemon listens.
    """
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # With SO_SNDTIMEO the kernel waits for room in a full backlog; settimeout() would not.
        limit = _TIMEVAL.pack(int(timeout_s), int(timeout_s % 1 * 1_000_000))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        with _address(path) as address:
            client.connect(address)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _FOREVER)
        client.settimeout(timeout_s)
    except BlockingIOError:
        client.close()
        raise TimeoutError from None
    except BaseException:
        client.close()
        raise
    return client


def connect_now(path: str, user_id: int | None = None) -> socket.socket:
    """Connect without waiting; the socket is non-blocking. BlockingIOError: the backlog is full.

    Raises PermissionError if another user than `user_id` listens (None: any user may).
    """
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        client.setblocking(False)
        with _address(path) as address:
            client.connect(address)
        if user_id not in (None, _listener(client)[1]):
            raise PermissionError(f"{path}: of another user")
    except BaseException:
        client.close()
        raise
    return client


def listener_pid(path: str) -> int | None:
    """Return the process that listens; 0: this PID namespace does not see it; None: there is none.

    It may be stopped, or hang.
    """
    try:
        with connect_now(path) as client:
            return _listener(client)[0]
    except BlockingIOError:  # too many connections wait for it to say which process it is
        return 0
    except OSError:
        return None


def _listener(client: socket.socket) -> tuple[int, int]:
    """Return pid and user of the listening process at listen(), whatever is at the path now."""
    peer = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    pid, user_id, _ = _PEER.unpack(peer)
    return pid, user_id


@contextlib.contextmanager
def _address(path: str) -> Iterator[str]:
    """Yield another name of the path that fits into the 108 bytes of a socket address."""
    directory, name = os.path.split(path)
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)
