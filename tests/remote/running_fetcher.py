"""A fetcher that a test has started, its clients and its log; and files for it to fetch."""

from __future__ import annotations

import contextlib
import functools
import os
import random
from collections.abc import Callable
from pathlib import Path

from ffrfs.remote.process import FetcherProcess
from ffrfs.remote.protocol import BLOCK_SIZE
from ffrfs.remote.settings import RemoteSettings
from tests.remote.fetch_client import FetchClient

SIZE = 5 * BLOCK_SIZE + 12345


@functools.lru_cache(8)
def content(size: int = SIZE, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def put(folder: Path, name: str, data: bytes) -> str:
    """Write a file; return its URL."""
    (folder / name).write_bytes(data)
    return f"file://{folder / name}"


class Running:
    """A fetcher, its clients and its log."""

    def __init__(
        self,
        settings: RemoteSettings,
        roots: list[str] | None = None,
        signed: dict[str, str] | None = None,
    ) -> None:
        self.logs: list[int] = []
        self.process = FetcherProcess(settings, self.logs.append, signed=signed or {}, roots=roots)
        self.clients: list[FetchClient] = []

    def client(self, **options) -> FetchClient:
        client = FetchClient(self.process.link(), **options)
        self.clients.append(client)
        return client

    def figure(self, name: str) -> int:
        return self.process.counters[name]

    def log(self) -> str:
        """Return the lines that it has logged since the last call."""
        text = b""
        for pipe in self.logs:
            os.set_blocking(pipe, False)
            with contextlib.suppress(BlockingIOError):
                text += os.read(pipe, 1 << 16)
        return text.decode()

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.process.close()
        for pipe in self.logs:
            os.close(pipe)


Start = Callable[..., Running]
