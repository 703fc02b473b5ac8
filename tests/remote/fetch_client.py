"""A test's client of a fetcher, which itself writes and reads the messages of one link."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from ffrfs.remote.protocol import BLOCK_SIZE, MESSAGE_SIZE_MAX, Answer, Ask, Request, Tell
from tests.remote.messages import message_of, parse_answer


@dataclass
class Opened:
    """An object that a client has open."""

    number: int
    size: int
    pin: str
    data: int
    state: int

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self.data, size, offset)

    def close(self) -> None:
        os.close(self.data)
        os.close(self.state)


class FetchClient:
    """Owns the descriptor `link`. Keeps answers that no one waits for yet."""

    def __init__(self, link: int, timeout_s: float = 60) -> None:
        self.socket = socket.socket(fileno=link)
        self.socket.settimeout(timeout_s)
        self.objects: dict[int, Opened] = {}
        self.kept: dict[int, list[Answer]] = {}
        self.moved: list[int] = []
        self.last_id = 0

    def send(self, kind: Ask, number: int = 0, **fields) -> int:
        self.last_id += 1
        request = Request(kind, number, fields.pop("id", self.last_id), **fields)
        self.socket.send(message_of(request))
        return request.id

    def answer(self, id_: int) -> Answer:
        while not self.kept.get(id_):
            self._receive()
        return self.kept[id_].pop(0)

    def open(self, url: str, pin: str = "", number: int | None = None) -> Opened:
        number = len(self.objects) if number is None else number
        answer = self.answer(self.send(Ask.OPEN, number, url=url, pin=pin))
        assert answer.kind is Tell.OPENED, answer
        return self.objects[number]

    def ask(self, opened: Opened, first: int, count: int, kind: Ask = Ask.WANT) -> Answer:
        return self.answer(self.send(kind, opened.number, first=first, count=count))

    def read_all(self, opened: Opened) -> bytes:
        blocks = -(-opened.size // BLOCK_SIZE)
        assert self.ask(opened, 0, blocks).kind is Tell.READY
        return opened.read(0, opened.size)

    def list(self, url: str) -> list[str] | Answer:
        id_ = self.send(Ask.LIST, url=url)
        found: list[str] = []
        while True:
            answer = self.answer(id_)
            if answer.kind is not Tell.LISTED:
                return answer
            found += answer.urls
            if not answer.more:
                return found

    def has_ended(self) -> bool:
        """Wait for the end of the link; return whether it came."""
        try:
            while self.socket.recv(MESSAGE_SIZE_MAX):
                pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        self.socket.close()
        for opened in self.objects.values():
            opened.close()

    def _receive(self) -> None:
        message, fds, _, _ = socket.recv_fds(self.socket, MESSAGE_SIZE_MAX, 4)
        if not message:
            raise EOFError("the fetcher has closed the link")
        answer = parse_answer(message)
        assert len(fds) == (2 if answer.kind in (Tell.OPENED, Tell.MOVED) else 0)
        if answer.kind is Tell.OPENED:
            self.objects[answer.object] = Opened(answer.object, answer.size, answer.pin, *fds)
        elif answer.kind is Tell.MOVED:
            moved = self.objects[answer.object]
            moved.close()
            moved.data, moved.state = fds
            self.moved.append(answer.object)
            return
        self.kept.setdefault(answer.id, []).append(answer)
