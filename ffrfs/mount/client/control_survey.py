"""Asking many daemons the same, all at once: a thousand of them have two seconds.

Not here: asking one, with an error that says what is wrong (control_client.py).

Concurrency: one thread, which waits for all daemons together. Blocking, no state.
"""

from __future__ import annotations

import contextlib
import json
import resource
import selectors
import socket
import time
from collections.abc import Sequence

from ffrfs.mount.client.control_client import ANSWER_SIZE_MAX, CHUNK_SIZE, request
from ffrfs.mount.kernel import control_socket

_RETRY_S = 0.01  # of a daemon whose queue of clients is full


def ask_all(
    paths: Sequence[str], command: str, timeout_s: float, at_once_max: int | None = None
) -> list[dict[str, object] | None]:
    """What the daemon at each control socket answers; None: nothing, within all of that time.

    `at_once_max`: None: as many as the limit on descriptors allows.
    """
    at_once = at_once_max or max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2, 1)
    deadline_s = time.monotonic() + timeout_s
    answers: list[dict[str, object] | None] = []
    while len(answers) < len(paths):
        batch = paths[len(answers) : len(answers) + at_once]
        # The rest have their share, even if none of these answers.
        share = len(batch) / (len(paths) - len(answers))
        now_s = time.monotonic()
        with _Batch(batch, command) as asked:
            answers += asked.answers(now_s + (deadline_s - now_s) * share)
    return answers


class _Batch(contextlib.ExitStack):
    """A connection to each of some daemons."""

    def __init__(self, paths: Sequence[str], command: str) -> None:
        super().__init__()
        self._request = request(command)
        self._selector = self.enter_context(selectors.DefaultSelector())
        self._answers: list[dict[str, object] | None] = [None] * len(paths)
        self._to_ask = list(enumerate(paths))

    def answers(self, deadline_s: float) -> list[dict[str, object] | None]:
        """As soon as all have answered, or at that time."""
        while (left_s := deadline_s - time.monotonic()) > 0:
            self._to_ask = [one for one in self._to_ask if not self._ask(*one)]
            if not (self._to_ask or self._selector.get_map()):
                break
            timeout_s = min(left_s, _RETRY_S) if self._to_ask else left_s
            for key, _ in self._selector.select(timeout_s):
                self._receive(key)
        return self._answers

    def _ask(self, number: int, path: str) -> bool:
        """False: try again."""
        try:
            client = self.enter_context(control_socket.connect_now(path))
        except BlockingIOError:
            return False
        except OSError:  # no daemon is there
            return True
        with contextlib.suppress(OSError):  # refused already; the answer says why
            client.sendall(self._request)  # which a new connection has room for
        self._selector.register(client, selectors.EVENT_READ, (number, bytearray()))
        return True

    def _receive(self, key: selectors.SelectorKey) -> None:
        number, answer = key.data
        client = key.fileobj
        assert isinstance(client, socket.socket)
        try:
            chunk = client.recv(CHUNK_SIZE)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        answer += chunk
        if chunk and not answer.endswith(b"\n") and len(answer) <= ANSWER_SIZE_MAX:
            return
        self._selector.unregister(client)
        client.close()
        with contextlib.suppress(ValueError, RecursionError):
            match json.loads(answer):
                case {"result": dict(result)}:
                    self._answers[number] = result
