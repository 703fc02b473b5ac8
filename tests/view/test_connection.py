"""Connections of the viewer: a fault of one ends no other connection, and not the server."""

from __future__ import annotations

import errno
import http.client
import logging
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hypercorn.protocol.h11 import H11Protocol

from ffrfs.cli.main import main
from ffrfs.errors import FfrfsError
from ffrfs.view import connection, server
from ffrfs.view import view as view_module
from ffrfs.view.server import Listener
from ffrfs.view.view import view
from tests.view.pages import Pages

TIMEOUT_S = 60
UPGRADE = (
    "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    "HTTP2-Settings: A\r\n\r\n"
)
PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def answer_to(pages: Pages, request: bytes) -> bytes:
    """Return all bytes that arrive until the server ends the connection."""
    with socket.create_connection((pages.host, pages.port), timeout=TIMEOUT_S) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(1 << 16), b""))


@pytest.mark.parametrize(
    "frames",
    [b"", bytes(9), b"\0\0\4\1\5\0\0\0\1\x82\x04\x01\xff"],
    ids=["none", "of no kind", "a path that is no text"],
)
@pytest.mark.parametrize("begin", [UPGRADE, PREFACE], ids=["upgrade", "preface"])
def test_http_2_requests_are_refused(pages: Pages, begin: str, frames: bytes) -> None:
    request = begin.format(host=f"{pages.host}:{pages.port}").encode() + frames
    assert answer_to(pages, request).startswith(b"HTTP/1.1 4")  # without a token
    assert pages.get("/").status == 200


def test_an_error_in_a_connection_ends_only_that_connection(
    pages: Pages, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> None:
        raise ValueError("unforeseen")

    with monkeypatch.context() as patched:
        patched.setattr(H11Protocol, "handle", fail)
        assert answer_to(pages, b"GET / HTTP/1.1\r\n\r\n") == b""
    assert pages.get("/").status == 200
    assert "a connection has failed: ValueError('unforeseen')" in caplog.text


def test_idle_connections_have_a_limit(pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They need no token, so the server closes connections above the limit at once."""
    monkeypatch.setattr(connection, "_CONNECTIONS_MAX", 3)
    monkeypatch.setattr(server, "_IDLE_S", 3600)  # closed ones must be noticed earlier
    with view(pack) as served:
        place = served._listener.socket.getsockname()
        with ExitStack() as opened:
            for _ in range(3):  # the server answers after it has counted the connection
                client = opened.enter_context(socket.create_connection(place, timeout=TIMEOUT_S))
                client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                assert client.recv(1) == b"H"
            with socket.create_connection(place, timeout=TIMEOUT_S) as refused:
                assert refused.recv(1) == b""
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:  # until the server has seen that they are closed
            with suppress(OSError, http.client.HTTPException):
                assert Pages(served.url).get("/").status == 200
                return
            assert time.monotonic() < deadline_s
            time.sleep(0.01)


def test_a_lack_of_descriptors_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection._Once, "has_said", False)
    for _ in range(3):
        logging.getLogger("trio.serve_listeners").error("accept returned %s (…)", "EMFILE")
    logging.getLogger("trio.serve_listeners").error("another error")
    assert caplog.text.count("too many open files") == 1
    assert "EMFILE" not in caplog.text and "another error" in caplog.text


def test_a_fork_does_not_keep_the_port(pack: Path) -> None:
    with view(pack) as served:
        Pages(served.url)  # the server runs
        place = served._listener.socket.getsockname()
        copy = served._listener.socket.dup()  # as a forked process has one
    with copy, socket.socket() as client:
        assert client.connect_ex(place) == errno.ECONNREFUSED
    view(pack, port=place[1]).close()


def test_an_unexpected_end_of_the_server_is_an_error(
    pack: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def end(_app: object, listener: Listener, **_: object) -> None:
        listener.socket.close()
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(view_module, "serve", end)
    with view(pack) as served, pytest.raises(FfrfsError, match="server of its pages has ended"):
        served.wait()
    assert main(["view", str(pack)]) == 1
    assert "p.ffr: the server of its pages has ended" in capfd.readouterr().err
