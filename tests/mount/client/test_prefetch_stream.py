"""The sender of hints: its connection, the bytes that it sends, and how the connection ends."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from ffrfs.errors import MountError
from ffrfs.mount.client import control_client
from ffrfs.mount.client.hint_stream import HintStream
from ffrfs.mount.kernel import state
from tests.mount.hint_taker import TIMEOUT_S, HintTaker, receive, received


@pytest.fixture
def stream(known: state.MountState, taker: HintTaker) -> Iterator[HintStream]:
    stream = HintStream(known.mountpoint)
    yield stream
    stream.close()


def in_thread(function: object, *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=function, args=arguments)  # type: ignore[arg-type]
    thread.start()
    return thread


def test_hints_and_their_end_mark(stream: HintStream, taker: HintTaker) -> None:
    with taker.client() as client:
        stream.send([b"/a", b"/d/b c", b"12"])
        stream.send([])
        stream.send([b"/\xff\n"])
        thread = in_thread(stream.finish)
        assert received(client) == b"/a\0/d/b c\x0012\0/\xff\n\0\0"
        thread.join(0.1)
        assert thread.is_alive()  # it cannot know that the hints were read
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()


def test_receiver_may_close_at_the_end_mark(stream: HintStream, taker: HintTaker) -> None:
    with taker.client() as client:
        thread = in_thread(stream.finish)
        assert receive(client, 1) == b"\0"
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()


def test_closing_sends_no_end_mark(stream: HintStream, taker: HintTaker) -> None:
    stream.send([b"1"])
    stream.close()
    with taker.client() as client:
        assert received(client) == b"1\0"


def test_sending_has_no_timeout(known: state.MountState, taker: HintTaker) -> None:
    own, _ = control_client.connect(known.mountpoint, "prefetch", timeout_s=1)
    with own:
        many = b"12345678\0" * 500_000
        thread = in_thread(own.sendall, many)
        with taker.client() as client:
            time.sleep(1.5)
            assert thread.is_alive()
            assert receive(client, len(many)) == many
        thread.join(TIMEOUT_S)


@pytest.mark.parametrize("are_read", [False, True])
def test_sending_to_a_receiver_that_has_closed_fails(
    stream: HintStream, taker: HintTaker, are_read: bool
) -> None:
    with taker.client() as client:
        stream.send([b"1"])
        if are_read:
            assert receive(client, 2) == b"1\0"
    with pytest.raises(MountError, match="takes no more hints") as caught:
        stream.send([b"2"])
        stream.finish()
    assert "\n" not in str(caught.value)


def test_finishing_fails_if_the_receiver_left_hints_unread(
    stream: HintStream, taker: HintTaker
) -> None:
    failures = []

    def finish() -> None:
        with pytest.raises(MountError, match="takes no more hints") as caught:
            stream.finish()
        failures.append(caught.value)

    with taker.client() as client:
        stream.send([b"1", b"2"])
        thread = in_thread(finish)
        assert receive(client, 2) == b"1\0"
    thread.join(TIMEOUT_S)
    assert len(failures) == 1


def test_stop_ends_a_blocked_send(stream: HintStream, taker: HintTaker) -> None:
    failures = []

    def send() -> None:
        with pytest.raises(MountError) as caught:
            stream.send([b"x" * 1000] * 10_000)
        failures.append(caught.value)

    with taker.client() as client:
        thread = in_thread(send)
        assert receive(client, 1) == b"x"
        stream.stop()
        thread.join(TIMEOUT_S)
        assert len(failures) == 1
        assert not received(client).endswith(b"\0\0")
    stream.stop()
    stream.close()
    stream.stop()


def test_stop_while_connecting_to_the_next_worker(
    stream: HintStream, taker: HintTaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_starts", 1)
    connect = control_client.connect

    def stop_meanwhile(*arguments: str) -> tuple[socket.socket, dict[str, object]]:
        stream.stop()
        return connect(*arguments)

    monkeypatch.setattr(control_client, "connect", stop_meanwhile)
    taker.client().close()  # the worker dies
    assert stream._client.recv(1) == b""  # no other process has the connection
    with pytest.raises(MountError, match="takes no more hints"):
        stream.send([b"1"])
    with taker.client() as client:
        assert received(client) == b""


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forked_child_does_not_affect_the_stream(stream: HintStream, taker: HintTaker) -> None:
    with taker.client() as client:
        child = os.fork()
        if child == 0:
            stream.stop()
            stream.close()
            signal.pause()
        try:
            stream.send([b"1"])
            assert receive(client, 2) == b"1\0"
            stream.close()  # ends the connection, though the child lives
            assert received(client) == b""
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_fork_while_streams_begin_and_end(known: state.MountState, taker: HintTaker) -> None:
    """A child that is forked while a connection is being made would keep it open."""
    is_over = threading.Event()

    def come_and_go() -> None:
        while not is_over.is_set():
            HintStream(known.mountpoint).close()

    thread = in_thread(come_and_go)
    try:
        for _ in range(30):
            time.sleep(0.002)
            assert status_of_child() == 0
    finally:
        is_over.set()
        thread.join()


@pytest.mark.promise("S36")
def test_fork_by_a_signal_handler_while_a_stream_begins(
    known: state.MountState, taker: HintTaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal handler runs in the thread that holds the lock."""
    connect, statuses = control_client.connect, []

    def fork_first(*arguments: str) -> tuple[socket.socket, dict[str, object]]:
        statuses.append(status_of_child())
        return connect(*arguments)

    monkeypatch.setattr(control_client, "connect", fork_first)
    HintStream(known.mountpoint).close()
    assert statuses == [0]


@pytest.mark.promise("S36")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_fork_while_connecting_to_the_next_worker(
    stream: HintStream, taker: HintTaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_starts", 1)
    connect, statuses = control_client.connect, []
    forking = threading.Thread(target=lambda: statuses.append(status_of_child()))

    def fork_meanwhile(*arguments: str) -> tuple[socket.socket, dict[str, object]]:
        found = connect(*arguments)
        forking.start()
        forking.join(0.1)  # this would last for ever if it waited for us
        return found

    monkeypatch.setattr(control_client, "connect", fork_meanwhile)
    taker.client().close()  # the worker dies
    assert stream._client.recv(1) == b""
    stream.send([b"1"])
    forking.join()
    assert statuses == [0]


def status_of_child() -> int:
    """Return how many control connections a child has that is forked now."""
    child = os.fork()
    if child == 0:
        os._exit(sum(is_client(fd) for fd in range(3, 64)))
    return os.waitpid(child, 0)[1]


def is_client(fd: int) -> bool:
    """Return whether `fd` is a Unix socket whose other end has the name of a control socket."""
    try:
        with socket.socket(fileno=os.dup(fd)) as found:
            return str(found.getpeername()).endswith(".sock")
    except OSError:
        return False
