"""A server whose answers a test writes byte by byte, in threads of the test's own process."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Asked(NamedTuple):
    connection: int  # the first one is 0
    method: str
    target: str


# The bytes to send, and whether to close then. None: send nothing until the client closes.
Answer = tuple[bytes, bool] | None


@contextlib.contextmanager
def scripted(answer: Callable[[Asked], Answer], *, at_once: bool = True) -> Iterator[int]:
    """Serve at the port that is yielded; many connections `at_once`, or one after the other."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        threading.Thread(target=_accept, args=(listening, answer, at_once), daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def _accept(listening: socket.socket, answer: Callable[[Asked], Answer], at_once: bool) -> None:
    number = 0
    with contextlib.suppress(OSError):
        while True:
            one, _ = listening.accept()
            words = (one, number, answer)
            thread = threading.Thread(target=_serve, args=words, daemon=True)
            thread.start()
            if not at_once:
                thread.join()
            number += 1


def _serve(one: socket.socket, number: int, answer: Callable[[Asked], Answer]) -> None:
    with one, one.makefile("rb") as lines, contextlib.suppress(OSError):
        while line := lines.readline():
            method, target, _ = line.decode().split(" ")
            while lines.readline() not in (b"\r\n", b""):
                pass
            made = answer(Asked(number, method, target))
            if made is None:
                lines.read()
                return
            one.sendall(made[0])
            if made[1]:
                return


def good(data: bytes, first: int = 0) -> Answer:
    """Return an answer 206 with `data`, which begins at `first` of a file of 10 bytes."""
    head = f'HTTP/1.1 206 Partial Content\r\nContent-Length: {len(data)}\r\nETag: "e"\r\n'
    head += f"Content-Range: bytes {first}-{first + len(data) - 1}/10\r\n\r\n"
    return head.encode() + data, False
