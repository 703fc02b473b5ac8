"""The faulty server and the delaying proxy do what other tests expect of them.

Not here: real servers, which the tests of their origins use first (test_origin_*.py).
"""

from __future__ import annotations

import http.client
import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.remote.servers.delay import delay
from tests.remote.servers.fault import Kind
from tests.remote.servers.faulty import Faulty, faulty
from tests.remote.servers.program import free_ports

DATA = bytes(range(256)) * 4096
RANGE = {"Range": "bytes=1000-300999"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    root = tmp_path_factory.mktemp("faulty")
    (root / "file").write_bytes(DATA)
    with faulty(root) as running:
        yield running


@pytest.fixture(autouse=True)
def mended(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "server" in request.fixturenames:
        request.getfixturevalue("server").mend()


class Got:
    def __init__(
        self, port: int, path: str = "/file", timeout_s: float = 60, **headers: str
    ) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
        with closing(connection):
            connection.request(
                "GET",
                path,
                headers={name.replace("_", "-"): value for name, value in headers.items()},
            )
            answer = connection.getresponse()
            self.status = answer.status
            self.headers = answer.headers
            self.body = answer.read()


def test_ranges_and_etags(server: Faulty) -> None:
    got = Got(server.port, **RANGE)
    assert (got.status, got.body) == (206, DATA[1000:301000])
    assert got.headers["content-range"] == f"bytes 1000-300999/{len(DATA)}"
    assert Got(server.port, If_Match=got.headers["etag"], **RANGE).status == 206
    assert Got(server.port, If_Match='"other"', **RANGE).status == 412
    assert Got(server.port, Range="bytes=-10").body == DATA[-10:]
    assert Got(server.port, Range=f"bytes={len(DATA)}-").status == 416
    assert Got(server.port).body == DATA
    assert Got(server.port, "/none").status == 404
    assert Got(server.port, "/%2e%2e/%2e%2e/etc/passwd").status == 404
    assert b'href="file"' in Got(server.port, "/").body


def test_wrong_headers(server: Faulty) -> None:
    server.do(Kind.WRONG_RANGE, times=1)
    server.do(Kind.WRONG_TOTAL, times=1)
    server.do(Kind.CHANGED_SILENTLY, times=1)
    server.do(Kind.CHANGED, times=1)
    server.do(Kind.NO_ETAG, times=1)
    server.do(Kind.WRONG_BYTES, times=1)
    good = Got(server.port, "/file", Range="bytes=0-9").headers["content-range"]
    assert good == f"bytes 1-10/{len(DATA)}"
    assert Got(server.port, **RANGE).headers["content-range"].endswith(f"/{len(DATA) + 1}")
    silent = Got(server.port, If_Match='"mine"', **RANGE)
    assert (silent.status, silent.headers["etag"]) == (206, '"another"')
    assert Got(server.port, If_Match='"mine"', **RANGE).status == 412
    assert "etag" not in Got(server.port, **RANGE).headers
    wrong = Got(server.port, **RANGE).body
    assert len(wrong) == 300000
    assert not any(a == b for a, b in zip(wrong[:1000], DATA[1000:2000], strict=True))
    assert Got(server.port, **RANGE).body == DATA[1000:301000]


@pytest.mark.parametrize("kind", [Kind.ENDLESS, Kind.ENDLESS_HEADER])
def test_endless_bodies_and_headers(server: Faulty, kind: Kind) -> None:
    server.do(kind)
    with socket.create_connection(("127.0.0.1", server.port), 30) as client:
        client.sendall(b"GET /file HTTP/1.1\r\nHost: here\r\n\r\n")
        size = 0
        while size < 8 << 20:
            size += len(client.recv(1 << 20))
    server.mend()
    assert Got(server.port).status == 200


def test_a_fault_applies_only_to_matching_requests(server: Faulty) -> None:
    server.do(Kind.ERROR, below="/file", method="GET", after=1, times=2)
    assert [Got(server.port).status for _ in range(4)] == [200, 500, 500, 200]
    server.do(Kind.ERROR, below="/other")
    server.do(Kind.ERROR, method="HEAD")
    assert Got(server.port).status == 200


def test_latency_bandwidth_and_counts(server: Faulty) -> None:
    server.forget_counts()
    server.shape(latency_s=0.05, bytes_per_s=2_000_000)
    begun_s = time.monotonic()
    Got(server.port, **RANGE)
    taken_s = time.monotonic() - begun_s
    server.shape()
    assert taken_s >= 0.1 + 0.15
    counts = server.counts()
    assert counts.bytes == {"/file": 300000}
    [seen] = counts.gets("/file")
    assert (seen.range, seen.status, seen.body_size) == ("bytes=1000-300999", 206, 300000)
    assert counts.most_under_way == 1


def test_a_killed_server_starts_again_at_its_port(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    with faulty(tmp_path) as server:
        server.program.kill()
        with pytest.raises(ConnectionRefusedError):
            Got(server.port)
        server.start_again()
        assert Got(server.port).body == b"abc"
        pid = server.program.pid
    assert not os.path.exists(f"/proc/{pid}")


def test_a_line_with_a_delay(server: Faulty) -> None:
    with delay(server.port, 0.04) as line:
        begun_s = time.monotonic()
        assert Got(line.port, **RANGE).body == DATA[1000:301000]
        taken_s = time.monotonic() - begun_s
        carried = line.carried()
        assert Got(line.port).body == DATA
    assert taken_s >= 4 * 0.04  # a round trip for the connection, one for the request
    assert carried.connections == 1
    assert 300_000 < carried.bytes_down < 301_000


def test_a_line_passes_on_how_a_connection_ends(server: Faulty) -> None:
    server.do(Kind.SHORT, times=1)
    server.do(Kind.RESET, times=1)
    with delay(server.port, 0.001) as line:
        for _ in range(2):
            with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
                Got(line.port, **RANGE)
        assert Got(line.port, **RANGE).status == 206


def test_ports_are_held_until_the_end() -> None:
    """This includes ports that no server listens at yet; the kernel gives them to no connection."""
    with free_ports(20) as some, free_ports(20) as others:
        assert len({*some, *others}) == 40
        with socket.socket() as own:
            own.bind(("127.0.0.1", 0))
            assert own.getsockname()[1] > max(*some, *others)
    assert not Path("/proc/net/unix").read_text().count(f"@ffrfs-test-port-{some[0]}\n")
