"""A survey asks many daemons at once, and a bad one does not delay the others."""

from __future__ import annotations

import itertools
import json
import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ffrfs.mount.client.control_client import ANSWER_SIZE_MAX
from ffrfs.mount.client.control_survey import Survey, ask_all
from ffrfs.mount.kernel import control_socket
from tests.mount.waiting import waited_s

TIMEOUT_S = 20.0  # more than any of these tests takes
GOOD = {"result": {"pid": 7}}
BAD = [
    b"",
    b"\n",
    b"x\n",
    b"[" * 100_000 + b"\n",
    b"[1]\n",
    b'{"result": 1}\n',
    b'{"error": "e"}\n',
]


class Daemons:
    """Listening sockets; threads answer the clients of some of them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self.requests: list[bytes] = []

    def silent(self) -> str:
        return self._new()[0]

    def answering(self, answer: bytes) -> str:
        path, listener = self._new()

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                self.requests.append(client.recv(1 << 16))
                client.sendall(answer)

        thread = threading.Thread(target=serve)
        self._stack.callback(thread.join)
        thread.start()
        return path

    def full(self) -> tuple[str, socket.socket, int]:
        """Return a socket whose client queue is full: path, listener, number of waiting clients."""
        path, listener = self._new()
        for count in itertools.count():
            try:
                self._stack.enter_context(control_socket.connect_now(path))
            except BlockingIOError:
                return path, listener, count
        raise AssertionError

    def _new(self) -> tuple[str, socket.socket]:
        path = str(self._folder / f"{len(os.listdir(self._folder))}.sock")
        return path, self._stack.enter_context(control_socket.listen(path))


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    with ExitStack() as stack:
        yield Daemons(tmp_path, stack)


def line(answer: object) -> bytes:
    return json.dumps(answer).encode() + b"\n"


@pytest.mark.parametrize("at_once", [None, 1, 3])
def test_answers_are_in_the_order_of_the_daemons(daemons: Daemons, at_once: int | None) -> None:
    paths = [daemons.answering(line({"result": {"pid": pid}})) for pid in range(10)]
    began_s = time.monotonic()
    assert ask_all(paths, "status", TIMEOUT_S, at_once) == [{"pid": pid} for pid in range(10)]
    assert time.monotonic() - began_s < TIMEOUT_S / 2  # it does not wait until the time is over
    assert daemons.requests == [b'{"command": "status"}\n'] * 10


def test_survey_of_no_daemons() -> None:
    assert ask_all([], "status", TIMEOUT_S) == []


def test_invalid_answers_count_as_none(daemons: Daemons, tmp_path: Path) -> None:
    paths = [daemons.answering(answer) for answer in BAD]
    good = daemons.answering(line(GOOD))
    answers = ask_all([*paths, str(tmp_path / "none"), good], "status", TIMEOUT_S)
    assert answers == [None] * (len(BAD) + 1) + [GOOD["result"]]


def test_answer_that_is_too_long_counts_as_none(daemons: Daemons) -> None:
    path = daemons.answering(b"x" * (ANSWER_SIZE_MAX + 1) + b"\n")
    assert ask_all([path], "status", TIMEOUT_S) == [None]


@pytest.mark.parametrize("at_once", [None, 1])
def test_silent_daemons_use_up_only_their_share_of_the_time(
    daemons: Daemons, at_once: int | None
) -> None:
    paths = [daemons.silent(), daemons.answering(line(GOOD)), daemons.silent()]
    began_s = waited_s()
    answers = ask_all([*paths, daemons.answering(line(GOOD))], "status", 2.4, at_once)
    assert answers == [None, GOOD["result"], None, GOOD["result"]]
    assert 1.2 < waited_s() - began_s < 2.5


def test_request_to_a_daemon_with_a_full_queue_is_retried(daemons: Daemons) -> None:
    path, listener, waiting_count = daemons.full()
    assert ask_all([path], "status", 0.1) == [None]

    def serve() -> None:
        for _ in range(waiting_count):
            listener.accept()[0].close()
        client, _ = listener.accept()
        with client:
            client.recv(1 << 16)
            client.sendall(line(GOOD))

    thread = threading.Timer(0.1, serve)
    thread.start()
    try:
        assert ask_all([path], "status", TIMEOUT_S) == [GOOD["result"]]
    finally:
        thread.join()


def test_survey_can_be_waited_for_with_select(daemons: Daemons) -> None:
    with Survey[str]("stats") as survey:
        survey.ask("silent", daemons.silent())
        survey.ask("good", daemons.answering(line(GOOD)))
        assert survey.waits_for == {"silent", "good"}
        assert select.select([survey], [], [], TIMEOUT_S)[0] == [survey]
        assert survey.receive(0) == {"good": GOOD["result"]}
        assert survey.waits_for == {"silent"}
        assert select.select([survey], [], [], 0)[0] == []
        survey.drop("silent")
        assert survey.waits_for == set()
        survey.ask("good", daemons.answering(line(GOOD)))  # a second time
        assert survey.receive(TIMEOUT_S) == {"good": GOOD["result"]}


def test_another_users_daemon_gets_no_request(daemons: Daemons) -> None:
    """The socket of that user's daemon belongs to another user."""
    user_id = os.geteuid()
    with Survey[str]("stats") as survey:
        survey.ask("stranger", daemons.silent(), user_id + 1)
        survey.ask("own", daemons.answering(line(GOOD)), user_id)
        assert survey.waits_for == {"own"}
        assert survey.receive(TIMEOUT_S) == {"own": GOOD["result"]}
