"""Requests in any order, and bytes that are no request: blocks are right, other clients go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ffrfs.remote.protocol import BLOCK_SIZE, Ask, Tell
from ffrfs.remote.settings import RemoteSettings
from tests.remote.fetch_client import FetchClient, Opened
from tests.remote.running_fetcher import Running, content, put

BLOCKS = 12
DATA = [content(BLOCKS * BLOCK_SIZE - 77, seed) for seed in range(2)]

few = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
steps = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from([Ask.WANT, Ask.SOON, Ask.AGAIN, Ask.USED]),
            st.integers(0, 1),  # which client
            st.integers(0, 1),  # which of its objects
            st.integers(0, BLOCKS - 1),
            st.integers(1, BLOCKS),
        ),
        st.tuples(st.just(Ask.CANCEL), st.integers(0, 1), st.integers(0, 30)),
        st.tuples(st.just(Ask.CLOSE), st.integers(0, 1), st.integers(0, 1)),
        st.tuples(st.just("leave"), st.integers(0, 1)),
    ),
    max_size=30,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("random")


@pytest.fixture(scope="module")
def urls(folder: Path) -> list[str]:
    return [put(folder, f"{number}", data) for number, data in enumerate(DATA)]


@pytest.fixture(scope="module", params=["full", "small", "stream"])
def running(request: pytest.FixtureRequest, folder: Path) -> Iterator[Running]:
    mode = "stream" if request.param == "stream" else "full"
    size = 16 * BLOCK_SIZE if request.param == "small" else 1 << 30
    made = Running(
        RemoteSettings(cache_dir=str(folder / request.param), cache_size=size, cache_mode=mode)
    )
    yield made
    made.close()


class Client:
    """A client that behaves well: it asks again for a block that was gone when it looked."""

    def __init__(self, running: Running, urls: list[str]) -> None:
        self.link = FetchClient(running.process.link())
        self.urls = urls
        self.opened = [self.link.open(url) for url in urls]

    def reopen(self, number: int) -> None:
        self.link.send(Ask.CLOSE, number)
        self.link.objects.pop(number).close()
        self.opened[number] = self.link.open(self.urls[number], number=number)

    def check(self) -> None:
        """Every block can be read, and is right."""
        for opened, data in zip(self.opened, DATA, strict=True):
            for block in range(BLOCKS):
                begin = block * BLOCK_SIZE
                assert self.has(opened, block, data[begin : begin + BLOCK_SIZE])

    def has(self, opened: Opened, block: int, wanted: bytes) -> bool:
        for _ in range(20):  # another client may have it evicted again
            assert self.link.ask(opened, block, 1).kind is Tell.READY
            if opened.read(block * BLOCK_SIZE, BLOCK_SIZE) == wanted:
                return True
        return False


@few
@given(steps=steps)
def test_any_order_of_requests(running: Running, urls: list[str], steps) -> None:
    clients = [Client(running, urls) for _ in range(2)]
    try:
        for kind, which, *rest in steps:
            client = clients[which]
            if kind == "leave":
                client.link.close()
                clients[which] = Client(running, urls)
            elif kind is Ask.CANCEL:
                client.link.send(kind, id=rest[0])
            elif kind is Ask.CLOSE:
                client.reopen(rest[0])
            else:
                number, first, count = rest
                client.link.send(kind, number, first=first, count=min(count, BLOCKS - first))
        for client in clients:
            client.check()
    finally:
        for client in clients:
            client.link.close()
    assert running.figure("remote_starts") == 1


@few
@given(messages=st.lists(st.binary(min_size=1, max_size=64), min_size=1, max_size=20))
def test_random_bytes_end_at_most_their_own_link(
    running: Running, urls: list[str], messages
) -> None:
    bad = FetchClient(running.process.link())
    bad.open(urls[0])
    for message in messages:
        try:
            bad.socket.send(message)
        except ConnectionError:
            break
    bad.close()
    good = FetchClient(running.process.link())
    opened = good.open(urls[1])
    assert good.ask(opened, 0, 1).kind is Tell.READY
    good.close()
    assert running.figure("remote_starts") == 1
