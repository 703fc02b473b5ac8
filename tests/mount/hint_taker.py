"""A daemon's control socket where the test takes the hints, in place of the engine."""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import trio

from ffrfs.mount.daemon.control_server import ControlServer, Handler, HandOver
from ffrfs.mount.kernel import control_socket

TIMEOUT_S = 60.0


class HintTaker:
    """The connections that the server hands over, in order of arrival."""

    def __init__(self) -> None:
        self._taken: queue.Queue[socket.socket] = queue.Queue()

    def take(self, fd: int) -> None:
        self._taken.put(socket.socket(fileno=os.dup(fd)))

    def client(self) -> socket.socket:
        """Return the next client's connection, which the caller must close."""
        client = self._taken.get(timeout=TIMEOUT_S)
        client.settimeout(TIMEOUT_S)
        return client

    def close(self) -> None:
        while not self._taken.empty():
            self._taken.get().close()


def received(client: socket.socket) -> bytes:
    """Return all data until the connection ends."""
    data = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while chunk := client.recv(1 << 16):
            data += chunk
    return bytes(data)


def receive(client: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = client.recv(size - len(data))
        assert chunk, f"ended after {bytes(data)!r}"
        data += chunk
    return bytes(data)


@contextlib.contextmanager
def hint_taker(path: Path | str, **commands: Handler) -> Iterator[HintTaker]:
    """Serves a control socket at this path from a thread, with "prefetch" and these commands."""
    taker = HintTaker()
    is_ready = threading.Event()
    loop: list[trio.lowlevel.TrioToken] = []
    scope = trio.CancelScope()

    async def serve(listener: socket.socket) -> None:
        loop.append(trio.lowlevel.current_trio_token())
        is_ready.set()
        known = {"prefetch": lambda _: HandOver(taker.take), **commands}
        with scope:
            await ControlServer(listener, known).run()

    with control_socket.listen(str(path)) as listener:
        thread = threading.Thread(target=trio.run, args=(serve, listener))
        thread.start()
        try:
            assert is_ready.wait(TIMEOUT_S)
            yield taker
        finally:
            loop[0].run_sync_soon(scope.cancel)
            thread.join()
            taker.close()
