"""Reads an object from front to end, for readers in Python: compressed TFRecord files.

It is a client of the fetcher, as the native core is: it requests some blocks ahead and reads them
from the cache's data file. The numbers in the state file say whether a block stayed there.

Not here: random access (the native core), the messages (protocol.py).
Concurrency: one thread at a time; each stream has its own link, and is used in one process.
"""

from __future__ import annotations

import io
import os
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ffrfs.cache.state_file import HEADER_SIZE
from ffrfs.errors import ChangedAtOriginError, RemoteError, RemoteTimeoutError, from_fields
from ffrfs.remote.protocol import (
    BLOCK_SIZE,
    MESSAGE_SIZE_MAX,
    Answer,
    Ask,
    Request,
    Tell,
    parse_answer,
)
from ffrfs.remote.session import session
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import parse_url

if TYPE_CHECKING:
    from typing_extensions import Buffer

_WINDOW = 4  # blocks that are requested at once, and as many again ahead of need
_TRIES = 3  # fetchers that may end during a step
_PAUSE_S = 0.1  # a fetcher that was killed may accept links for a moment
_READS = 12  # attempts to read a block: a small cache with many readers may not keep it


class RemoteStream(io.RawIOBase):
    """An object as a raw stream. Raises RemoteError and its subclasses; OptionError: not a URL."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._shown = parse_url(url).shown
        self._url = url
        self._pin = ""
        self._is_open = False
        self._timeout_s = (session.settings or RemoteSettings.from_environment()).timeout_s
        self._link: socket.socket | None = None
        self._files: list[int] = []  # descriptors of the data file and the state file
        self._at = 0
        self._asked = 0  # blocks before this one were requested, and were present
        self._window = _WINDOW
        self._last_id = 0
        self.size = 0
        self._connected(self._open)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        with memoryview(buffer).cast("B") as view:
            block, within = divmod(self._at, BLOCK_SIZE)
            count = min(len(view), BLOCK_SIZE - within, self.size - self._at)
            for _ in range(_READS if count > 0 else 0):
                self._connected(lambda: self._want(block))
                number = self._number(block)
                done = os.preadv(self._files[0], [view[:count]], self._at)
                if number and done == count and self._number(block) == number:
                    self._at += count
                    return count
                if number and self._number(block) == number:  # the data file was truncated
                    self._connected(lambda: self._ask(Ask.AGAIN, first=block, count=1))
                self._asked = block  # the block was evicted meanwhile
                self._window = max(self._window // 2, 1)
        if count > 0:
            raise RemoteError.at(
                self._shown, "its cache loses blocks faster than they are read; make it larger"
            )
        return 0

    def close(self) -> None:
        if not self.closed:
            self._disconnect()
        super().close()

    def _want(self, block: int) -> None:
        if block < self._asked:
            return
        count = min(self._window, -(-self.size // BLOCK_SIZE) - block)
        self._ask(Ask.WANT, first=block, count=count)
        self._send(Request(Ask.USED, 0, 0, first=block, count=count))
        self._asked = block + count
        ahead = min(self._window, -(-self.size // BLOCK_SIZE) - self._asked)
        self._window = min(self._window + 1, _WINDOW)
        if ahead > 0:  # a request of id 0 gets no answer
            self._send(Request(Ask.SOON, 0, 0, first=self._asked, count=ahead))

    def _open(self) -> None:
        answer = self._ask(Ask.OPEN, url=self._url, pin=self._pin)
        if self._is_open and answer.size != self.size:
            raise ChangedAtOriginError.at(self._shown, "changed at its origin; open it again")
        self._pin, self.size, self._is_open = answer.pin, answer.size, True

    def _connected(self, step: Callable[[], object]) -> None:
        """Run `step`; if the fetcher ends meanwhile, run it again with another one."""
        for _ in range(_TRIES):
            try:
                if self._link is None:
                    self._link = socket.socket(fileno=session.get_link())
                    self._link.settimeout(self._timeout_s)
                    self._asked = 0
                    if self._is_open:
                        self._open()
                step()
                return
            except TimeoutError as error:
                self._disconnect()
                if isinstance(error, RemoteError):
                    raise
                why = f"no answer for {self._timeout_s:g} s (--remote-timeout)"
                raise RemoteTimeoutError.at(self._shown, why) from None
            except (ConnectionError, EOFError):
                self._disconnect()
                time.sleep(_PAUSE_S)
        raise RemoteError.at(self._shown, "its fetcher has ended several times; see the log")

    def _ask(self, kind: Ask, **fields: object) -> Answer:
        self._last_id += 1
        self._send(Request(kind, 0, self._last_id, **fields))  # type: ignore[arg-type]
        while True:
            answer = self._receive()
            if answer.kind is Tell.FAILED and answer.id == self._last_id:
                raise from_fields(answer.error, answer.reason, "", None, 0)
            if answer.kind is not Tell.MOVED and answer.id == self._last_id:
                return answer

    def _send(self, request: Request) -> None:
        assert self._link is not None
        self._link.send(request.to_bytes())

    def _receive(self) -> Answer:
        assert self._link is not None
        message, files, _, _ = socket.recv_fds(self._link, MESSAGE_SIZE_MAX, 2)
        if not message:
            raise EOFError
        try:
            answer = parse_answer(message)
            if len(files) != answer.descriptor_count:
                raise RemoteError.at(self._shown, "an answer lacks its files")
        except BaseException:
            for file in files:
                os.close(file)
            raise
        if files:
            self._close_files()
            self._files = files
            self._asked = 0
        return answer

    def _number(self, block: int) -> int:
        return (os.pread(self._files[1], 1, HEADER_SIZE + block) or b"\0")[0]

    def _disconnect(self) -> None:
        self._close_files()
        if self._link is not None:
            self._link.close()
            self._link = None

    def _close_files(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []
