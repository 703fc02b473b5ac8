"""Which ranges a fetcher requests: few, merged, and first those that someone waits for."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs.remote.pace import FLIGHT_SIZE_MAX, RANGE_BLOCKS_MAX, RANGES_MAX
from ffrfs.remote.protocol import BLOCK_SIZE, Ask, Tell
from tests.remote.running_fetcher import Start, content
from tests.remote.servers.fault import Kind
from tests.remote.servers.faulty import Faulty, faulty

BLOCKS = 48
DATA = content(BLOCKS * BLOCK_SIZE - 1000)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Faulty]:
    """One for each test: it counts requests, and those of an ended fetcher may come late."""
    (tmp_path / "a.bin").write_bytes(DATA)
    with faulty(tmp_path) as server:
        server.shape(latency_s=0.005)
        yield server


def url(server: Faulty) -> str:
    return f"{server.url}/a.bin"


def range_sizes(server: Faulty) -> list[int]:
    """Return the sizes of the ranges in blocks, without the request that opened the object."""
    ranges = [
        seen.range.removeprefix("bytes=").split("-") for seen in server.counts().gets("/a.bin")
    ]
    sizes = [int(end) + 1 - int(begin) for begin, end in ranges]
    return [-(-size // BLOCK_SIZE) for size in sizes if size > 1]


def test_neighbouring_blocks_are_fetched_in_one_range(start: Start, server: Faulty) -> None:
    client = start().client()
    opened = client.open(url(server))
    assert client.read_all(opened) == DATA
    first = range_sizes(server)
    assert sum(first) == BLOCKS and max(first) <= RANGE_BLOCKS_MAX
    assert len(first) <= BLOCKS / 2  # the fetcher knew nothing of the server yet


def test_each_block_is_fetched_once_for_any_request_order(start: Start, server: Faulty) -> None:
    running = start()
    client = running.client()
    opened = client.open(url(server))
    order = [number for number in range(BLOCKS) for _ in range(2)]
    random.Random(7).shuffle(order)
    asked = [
        client.send(random.choice([Ask.WANT, Ask.SOON]), opened.number, first=number, count=1)
        for number in order
    ]
    assert all(client.answer(id_).kind is Tell.READY for id_ in asked)
    assert opened.read(0, len(DATA)) == DATA
    assert sum(range_sizes(server)) == BLOCKS
    assert running.figure("remote_bytes") == len(DATA)


def test_many_ranges_are_in_flight_up_to_the_limit(start: Start, server: Faulty) -> None:
    server.shape(latency_s=0.25)
    client = start().client()
    opened = client.open(url(server))
    server.forget_counts()
    asked = [
        client.send(Ask.WANT, opened.number, first=number, count=1)
        for number in range(0, BLOCKS, 2)  # no two are neighbours
    ]
    assert all(client.answer(id_).kind is Tell.READY for id_ in asked)
    assert 8 <= server.counts().most_under_way <= min(RANGES_MAX, FLIGHT_SIZE_MAX // BLOCK_SIZE)


@pytest.mark.promise("S63")
def test_requested_blocks_come_before_hinted_blocks(start: Start, server: Faulty) -> None:
    server.shape(latency_s=0.005, bytes_per_s=10e6)
    client = start().client()
    opened = client.open(url(server))
    hinted = [
        client.send(Ask.SOON, opened.number, first=number, count=1) for number in range(BLOCKS - 1)
    ]
    wanted = client.send(Ask.WANT, opened.number, first=BLOCKS - 1, count=1)
    assert client.answer(wanted).kind is Tell.READY
    answered = sum(bool(client.kept.get(id_)) for id_ in hinted)
    assert answered < len(hinted)
    server.shape()
    assert all(client.answer(id_).kind is Tell.READY for id_ in hinted)


def test_a_hint_that_is_cancelled_is_not_fetched(start: Start, server: Faulty) -> None:
    server.shape(latency_s=0.05, bytes_per_s=10e6)
    running = start()
    client = running.client()
    opened = client.open(url(server))
    asked = [
        client.send(Ask.SOON, opened.number, first=number, count=1) for number in range(BLOCKS)
    ]
    for id_ in asked:
        client.send(Ask.CANCEL, id=id_)
    assert client.ask(opened, 0, 1).kind is Tell.READY
    assert running.figure("remote_blocks_fetched") < BLOCKS


def test_hints_of_a_disconnected_client_are_dropped(start: Start, server: Faulty) -> None:
    server.shape(latency_s=0.05, bytes_per_s=10e6)
    running = start()
    gone = running.client()
    opened = gone.open(url(server))
    gone.send(Ask.SOON, opened.number, first=0, count=BLOCKS)
    gone.socket.close()
    client = running.client()
    assert client.ask(client.open(url(server)), 0, 1).kind is Tell.READY
    assert running.figure("remote_blocks_fetched") < BLOCKS


def test_a_server_that_wants_fewer_requests_gets_fewer(start: Start, server: Faulty) -> None:
    running = start(timeout_s=30.0)
    client = running.client()
    opened = client.open(url(server))
    server.do(Kind.SLOW_DOWN, times=4)
    asked = [client.send(Ask.WANT, opened.number, first=n, count=1) for n in range(0, BLOCKS, 2)]
    assert all(client.answer(id_).kind is Tell.READY for id_ in asked)
    assert running.figure("remote_throttled") >= 1
    assert running.figure("remote_retries") >= running.figure("remote_throttled")


@pytest.mark.promise("S63")
def test_temporary_faults_are_retried(start: Start, server: Faulty) -> None:
    client = start(timeout_s=30.0).client()
    opened = client.open(url(server))
    server.do(Kind.SHORT, times=3)
    assert client.read_all(opened) == DATA


@pytest.mark.parametrize("kind", [Kind.WRONG_RANGE, Kind.CHANGED])
def test_wrong_answers_are_reported_and_not_kept(start: Start, server: Faulty, kind: Kind) -> None:
    running = start()
    client = running.client()
    opened = client.open(url(server))
    server.do(kind)
    answer = client.ask(opened, 3, 2)
    assert answer.kind is Tell.FAILED and answer.reason
    assert running.figure("remote_blocks_fetched") == 0
    assert opened.read(3 * BLOCK_SIZE, 100) == bytes(100)
