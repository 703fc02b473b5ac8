"""A mount's ends of the connections for hints, without a mount. Its files are d/NUMBER.jpg."""

from __future__ import annotations

import contextlib
import gc
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ffrfs.mount.client import control_client

TIMEOUT_S = 60


class Mount:
    """Takes the place of a mount, and holds the far ends of all connections to it."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.clients: list[socket.socket] = []

    @classmethod
    @contextlib.contextmanager
    def at(cls, place: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mount]:
        """Receive the hints that are given meanwhile; no thread of hints is left at the end."""
        mount = cls(place)
        monkeypatch.setattr(control_client, "connect", mount.connect)
        yield mount
        for client in mount.clients:
            client.close()
        gc.collect()
        wait_until(lambda: all(thread.name != "ffrfs-hints" for thread in threading.enumerate()))

    def connect(self, place: str, command: str) -> tuple[socket.socket, dict[str, object]]:
        assert (place, command) == (self.place, "prefetch")
        ours, theirs = socket.socketpair()
        theirs.settimeout(TIMEOUT_S)
        self.clients.append(theirs)
        return ours, {}

    def indices(self, client: int, count: int) -> list[int]:
        """Return the next `count` hints of that client."""
        data = b""
        while data.count(b"\0") < count:
            chunk = self.clients[client].recv(1)
            assert chunk, "ended"
            data += chunk
        return [int(text[3:-4]) for text in data.split(b"\0")[:-1]]

    def indices_up_to(self, client: int, last: int) -> list[int]:
        found: list[int] = []
        while last not in found:
            found += self.indices(client, 1)
        return found

    def indices_to_end(self, client: int) -> list[int]:
        """Return all hints of that client, which says at their end that they hold."""
        *texts, mark, nothing = self.rest(client).split(b"\0")
        assert mark == nothing == b""
        return [int(text[3:-4]) for text in texts]

    def rest(self, client: int) -> bytes:
        """Return all bytes until the end of the connection."""
        data = b""
        while chunk := self.clients[client].recv(1 << 16):
            data += chunk
        return data


def wait_until(condition: Callable[[], bool], pause_s: float = 0.05) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(pause_s)
