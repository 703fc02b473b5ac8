"""Connections to web servers: kept, reused, dropped; redirects and proxies on the way."""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from ffrfs.errors import RemoteError
from ffrfs.remote import http_origin
from ffrfs.remote.http_line import Line
from ffrfs.remote.settings import RemoteSettings
from tests.remote.origins import pin
from tests.remote.servers.program import free_ports
from tests.remote.servers.scripted import Answer, Asked, good, scripted

DATA = b"0123456789"
SETTINGS = RemoteSettings(timeout_s=30)
IDLE = 5


def with_idle(port: int, settings: RemoteSettings) -> list[Line]:
    """Open a few connections; return the list of idle ones."""
    server = http_origin._server("http", f"127.0.0.1:{port}", settings)
    server._is_new = False  # otherwise it would open more in the background
    for _ in range(IDLE):
        server._connect(server._new())
    return server._idle


@pytest.mark.promise("S63")
def test_dead_idle_connections_cost_only_one_delay() -> None:
    """It is as if a router had forgotten them: no answer comes on them, and new ones work."""
    begin_s = time.monotonic()
    settings = RemoteSettings(timeout_s=6)  # a quarter of it for each attempt
    with scripted(lambda asked: None if asked.connection < IDLE else good(DATA[:1])) as port:
        kept = with_idle(port, settings)
        assert pin(f"http://127.0.0.1:{port}/a", settings).size == len(DATA)
        assert len(kept) == 1
    assert time.monotonic() - begin_s < 6


def test_a_server_of_one_connection_at_a_time_answers() -> None:
    """Otherwise connections that are opened ahead would keep it from the one with the request."""
    begin_s = time.monotonic()
    with scripted(lambda _: good(DATA[:1]), at_once=False) as port:
        with_idle(port, SETTINGS)
        assert pin(f"http://127.0.0.1:{port}/a", SETTINGS).size == len(DATA)
    assert time.monotonic() - begin_s < SETTINGS.timeout_s / 4  # the limit for silence


@pytest.mark.parametrize("status", ["206 Partial Content", "404 Not Found"])
def test_a_body_that_breaks_off_leaves_no_connection(status: str) -> None:
    """If the server closes the connection, http.client leaves the socket to the response."""
    head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Range: bytes 0-0/10\r\n"
    broken = f"{head}Content-Length: 999999\r\n\r\n".encode()
    settings = RemoteSettings(timeout_s=1)
    gc.disable()
    try:
        with scripted(lambda _: (broken, True)) as port:
            http_origin._server("http", f"127.0.0.1:{port}", settings)._is_new = False
            with pytest.raises(RemoteError):
                pin(f"http://127.0.0.1:{port}/a", settings)
            # isinstance() would ask objects of other packages for their __class__, which may warn.
            sockets = [kept for kept in gc.get_objects() if issubclass(type(kept), socket.socket)]
            assert not [kept for kept in sockets if f"raddr=('127.0.0.1', {port})" in repr(kept)]
    finally:
        gc.enable()


@pytest.mark.promise("S63")
@pytest.mark.parametrize("status", [500, 507, 522, 529])
def test_temporary_statuses_are_tried_again(status: int) -> None:
    failed = f"HTTP/1.1 {status} any\r\nContent-Length: 0\r\n\r\n".encode()
    answers = iter([(failed, False), (failed, False)])
    with scripted(lambda _: next(answers, good(DATA[:1]))) as port:
        assert pin(f"http://127.0.0.1:{port}/a", SETTINGS).size == len(DATA)


def test_a_range_without_the_total_size_is_refused() -> None:
    unknown = good(DATA[:1])[0].replace(b"/10", b"/*")
    why = pytest.raises(RemoteError, match="does not say how many bytes")
    with scripted(lambda _: (unknown, False)) as port, why:
        pin(f"http://127.0.0.1:{port}/a", SETTINGS)


@pytest.mark.parametrize("status", [501, 505])
def test_lasting_statuses_are_errors_at_once(status: int) -> None:
    failed = f"HTTP/1.1 {status} any\r\nContent-Length: 0\r\n\r\n".encode()
    with (
        scripted(lambda _: (failed, False)) as port,
        pytest.raises(RemoteError, match=f"answered {status}"),
    ):
        pin(f"http://127.0.0.1:{port}/a", SETTINGS)


def test_connections_that_were_idle_for_long_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Asked] = []

    def answer(one: Asked) -> Answer:
        asked.append(one)
        return good(DATA[:1])

    with scripted(answer) as port:
        kept = with_idle(port, SETTINGS)
        pin(f"http://127.0.0.1:{port}/a", SETTINGS)
        assert (len(kept), asked[-1].connection) == (IDLE, IDLE - 1)
        monkeypatch.setattr(http_origin, "_IDLE_S", 0.0)
        pin(f"http://127.0.0.1:{port}/a", SETTINGS)
        assert (len(kept), asked[-1].connection) == (1, IDLE)


def test_idle_connections_dropped_by_another_thread() -> None:
    """A request of that thread has timed out, just when this one is about to take a connection."""

    class Dropped(list[Line]):
        def __len__(self) -> int:
            count = super().__len__()
            self.clear()
            return count

    with scripted(lambda _: good(DATA[:1])) as port:
        with_idle(port, SETTINGS)
        server = http_origin._server("http", f"127.0.0.1:{port}", SETTINGS)
        server._idle = Dropped(server._idle)
        assert pin(f"http://127.0.0.1:{port}/a", SETTINGS).size == len(DATA)


@pytest.mark.parametrize(
    ("body", "closes"),
    [
        (b"Content-Length: 5\r\n\r\nmoved", False),
        (b"Content-Length: 5000\r\n\r\n" + b"x" * 5000, False),
        (b"Transfer-Encoding: chunked\r\n\r\n5\r\nmoved\r\n0\r\n\r\n", False),
        (b"\r\nmoved", True),
    ],
    ids=["short", "long", "chunked", "unto the end"],
)
def test_a_redirect_with_any_kind_of_body_is_followed(body: bytes, closes: bool) -> None:
    def answer(asked: Asked) -> Answer:
        if asked.target == "/there":
            return good(DATA[:1])
        return b"HTTP/1.1 302 Found\r\nLocation: /there\r\n" + body, closes

    with scripted(answer) as port:
        assert pin(f"http://127.0.0.1:{port}/a", SETTINGS).size == len(DATA)


def test_a_redirect_status_without_a_location_is_reported() -> None:
    answer = b"HTTP/1.1 304 Not Modified\r\nContent-Length: 0\r\n\r\n", False
    refused = pytest.raises(RemoteError, match=r"/a: the server answered 304$")
    with scripted(lambda _: answer) as port, refused:
        pin(f"http://127.0.0.1:{port}/a", SETTINGS)


Proxied = Callable[..., None]


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxied]:
    """Sets a proxy, and a host that needs none."""

    def name(proxy: str, but: str = "") -> None:
        for each in ("NO_PROXY", "HTTP_PROXY"):
            monkeypatch.delenv(each, raising=False)
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.setenv("no_proxy", but)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
        forget_servers()  # kept connections keep their proxy

    yield name
    forget_servers()


def forget_servers() -> None:
    """Close all connections, also those that only an error in garbage still holds."""
    gc.collect()
    http_origin._server.cache_clear()


@pytest.mark.parametrize(
    ("proxy", "reason"),
    [
        ("http://127.0.0.1:{}", "the proxy 127.0.0.1:{} refuses connections; check host and port"),
        ("http://user:hush@nohost.invalid:1", "DNS does not know the name of the proxy nohost.inv"),
        ("http://127.0.0.1:abc", "its proxy (http_proxy) must be http://HOST:PORT"),
        ("http://[127.0.0.1", "its proxy (http_proxy) must be http://HOST:PORT"),
    ],
)
def test_errors_of_a_proxy_name_the_proxy(proxied: Proxied, proxy: str, reason: str) -> None:
    with free_ports(1) as [port], pytest.raises(RemoteError) as caught:
        proxied(proxy.format(port))
        pin("http://192.0.2.1:8400/a", RemoteSettings(timeout_s=2))
    assert reason.format(port) in str(caught.value)
    assert "hush" not in str(caught.value)


REFUSES = "the proxy 127.0.0.1:{} refuses connections; check host and port"
UNKNOWN = "the name of the proxy nohost.invalid:1; check"
NOT_ASKED = "the endpoint refuses connections; check host and"


# A proxy is named alike for every scheme, so each scheme has only some of the cases.
@pytest.mark.parametrize(
    ("scheme", "proxy", "but", "reason"),
    [
        ("s3", "http://127.0.0.1:{}", "", REFUSES),
        ("gs", "user:hush@127.0.0.1:{}", "", REFUSES),
        ("az", "user:hush@127.0.0.1:{}", "", REFUSES),
        ("s3", "http://user:hush@nohost.invalid:1", "", UNKNOWN),
        ("gs", "http://127.0.0.1:1", "127.0.0.1", NOT_ASKED),
        ("az", "http://127.0.0.1:1", "127.0.0.1", NOT_ASKED),
    ],
)
def test_a_proxy_before_a_bucket_is_named(
    proxied: Proxied, scheme: str, proxy: str, but: str, reason: str
) -> None:
    with free_ports(2) as [port, closed], pytest.raises(RemoteError) as caught:
        proxied(proxy.format(port), but)
        endpoint = f"http://127.0.0.1:{closed}"
        settings = RemoteSettings(timeout_s=1, endpoint_url=endpoint, anonymous=True)
        pin(f"{scheme}://bucket/a", settings)
    assert reason.format(port) in str(caught.value)
    assert "hush" not in str(caught.value)


def test_no_proxy_names_hosts_with_or_without_a_port(proxied: Proxied) -> None:
    with scripted(lambda _: good(DATA[:1])) as port, free_ports(1) as [closed]:
        for but in ("127.0.0.1", f"127.0.0.1:{port}"):
            proxied(f"http://127.0.0.1:{closed}", but)
            assert pin(f"http://127.0.0.1:{port}/a", SETTINGS).size == len(DATA)
        with pytest.raises(RemoteError, match="the proxy"):
            proxied(f"http://127.0.0.1:{closed}", f"127.0.0.1:{port + 1}")
            pin(f"http://127.0.0.1:{port}/a", RemoteSettings(timeout_s=2))
