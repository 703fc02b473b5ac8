"""The control socket's command "prefetch": the daemon hands the connection to the engine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ffrfs.errors import MountError
from ffrfs.mount.daemon import control_server
from ffrfs.mount.daemon.control_server import CLIENTS_MAX, HandOver
from ffrfs.mount.kernel import control_socket
from tests.mount.hint_taker import TIMEOUT_S, hint_taker, receive, received

PREFETCH = b'{"command": "prefetch"}\n'
ECHO = b'{"command": "echo"}\n'
AGREED = b'{"result": {}}\n'
ROUNDS = 100


def echo(request: Mapping[str, object]) -> object:
    return dict(request)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.sock"


def test_connection_is_handed_over_with_its_unread_bytes(path: Path) -> None:
    with hint_taker(path, echo=echo) as taker, control_socket.connect(str(path), TIMEOUT_S) as own:
        own.sendall(ECHO)
        assert json.loads(own.recv(4096)) == {"result": {"command": "echo"}}
        own.sendall(PREFETCH)
        assert receive(own, len(AGREED)) == AGREED
        own.sendall(b"/a\0" + ECHO)
        with taker.client() as client:
            assert receive(client, 3 + len(ECHO)) == b"/a\0" + ECHO
            client.sendall(b"still open")
            assert receive(own, 10) == b"still open"
        assert own.recv(1) == b""  # nobody else has the connection


def test_connection_handed_over_has_no_idle_timeout(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_server, "IDLE_TIMEOUT_S", 1)
    with hint_taker(path) as taker, control_socket.connect(str(path), TIMEOUT_S) as own:
        own.sendall(PREFETCH)
        assert receive(own, len(AGREED)) == AGREED
        with control_socket.connect(str(path), TIMEOUT_S) as other:
            assert other.recv(1) == b""  # the server has dropped an idle client of its own
        own.sendall(b"1\0")
        with taker.client() as client:
            assert receive(client, 2) == b"1\0"


def test_connection_handed_over_is_not_counted_as_a_client(path: Path) -> None:
    clients = []
    with hint_taker(path, echo=echo) as taker:
        for _ in range(3 * CLIENTS_MAX):
            own = control_socket.connect(str(path), TIMEOUT_S)
            own.sendall(PREFETCH)
            assert receive(own, len(AGREED)) == AGREED
            clients += [own, taker.client()]
        for client in clients:
            client.close()


@pytest.mark.parametrize("behind", [b"/a\0", b"\0", ECHO])
def test_bytes_after_the_request_are_an_error(path: Path, behind: bytes) -> None:
    with hint_taker(path, echo=echo) as taker, control_socket.connect(str(path), TIMEOUT_S) as own:
        own.sendall(PREFETCH + behind)
        answer = json.loads(received(own))
        assert answer == {"error": "bytes behind a request that takes the connection over"}
        own.close()
        with control_socket.connect(str(path), TIMEOUT_S) as other:
            other.sendall(PREFETCH)
            assert receive(other, len(AGREED)) == AGREED
            with taker.client() as client:  # the first one that the server hands over
                other.sendall(b"other")
                assert receive(client, 5) == b"other"


def raiser(error: Exception) -> Callable[[object], None]:
    def fail(_: object) -> None:
        raise error

    return fail


def test_failed_handover_closes_only_its_connection(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = HandOver(raiser(ZeroDivisionError("oh")))
    with (
        hint_taker(path, echo=echo, broken=lambda _: broken),
        control_socket.connect(str(path), TIMEOUT_S) as own,
        control_socket.connect(str(path), TIMEOUT_S) as other,
    ):
        own.sendall(b'{"command": "broken"}\n')
        assert received(own) == AGREED
        other.sendall(ECHO)
        assert b"result" in other.recv(4096)
    assert "ZeroDivisionError: oh" in caplog.text


def test_refusal_is_answered_and_not_logged(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    refuse = raiser(MountError("not here"))
    with (
        hint_taker(path, refuse=refuse, echo=echo),
        control_socket.connect(str(path), TIMEOUT_S) as own,
    ):
        own.sendall(b'{"command": "refuse"}\n')
        assert json.loads(own.recv(4096)) == {"error": "not here"}
        own.sendall(ECHO)
        assert b"result" in own.recv(4096)
    assert caplog.messages == []


def test_handover_leaks_no_descriptor(path: Path) -> None:
    with hint_taker(path) as taker:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(ROUNDS):
            with control_socket.connect(str(path), TIMEOUT_S) as own:
                own.sendall(PREFETCH)
                assert receive(own, len(AGREED)) == AGREED
                taker.client().close()
                assert own.recv(1) == b""
        # Threads of earlier tests may open or close some meanwhile; a leak is one in each round.
        assert len(os.listdir("/proc/self/fd")) < before + ROUNDS // 2
