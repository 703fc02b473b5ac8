"""Asking many daemons the same, all at once: a thousand of them have two seconds.

Not here: asking one daemon, with an error that names the fault (control_client.py).

Concurrency: one thread, which waits for all daemons together. ask_all() blocks; a Survey
can also be waited for together with something else (`ffrfs top` waits for keys, too).
"""

from __future__ import annotations

import contextlib
import json
import resource
import selectors
import socket
import time
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from ffrfs.mount.client.control_client import ANSWER_SIZE_MAX, CHUNK_SIZE, request
from ffrfs.mount.kernel import control_socket

Key = TypeVar("Key", bound=Hashable)

_RETRY_S = 0.01  # to ask a daemon again whose queue of clients is full


def ask_all(
    paths: Sequence[str], command: str, timeout_s: float, at_once_max: int | None = None
) -> list[dict[str, object] | None]:
    """Return the answer of the daemon at each control socket; None if it sent none in that time.

    `at_once_max`: None: as many as the limit on descriptors allows.
    """
    at_once = at_once_max or max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2, 1)
    deadline_s = time.monotonic() + timeout_s
    answers: list[dict[str, object] | None] = [None] * len(paths)
    for begin in range(0, len(paths), at_once):
        batch = paths[begin : begin + at_once]
        # Leaves the others their share of the time, even if none of this batch answers.
        now_s = time.monotonic()
        batch_deadline_s = now_s + (deadline_s - now_s) * len(batch) / (len(paths) - begin)
        with Survey[int](command) as survey:
            for number, path in enumerate(batch, begin):
                survey.ask(number, path)
            while survey.waits_for and (left_s := batch_deadline_s - time.monotonic()) > 0:
                for number, answer in survey.receive(left_s).items():
                    answers[number] = answer
    return answers


class Survey(Generic[Key]):
    """The same question to many daemons, each of which has a key. Use it with `with`."""

    def __init__(self, command: str) -> None:
        self._request = request(command)
        self._selector = selectors.EpollSelector()
        self._asked: dict[Key, socket.socket] = {}
        # Socket and user of daemons whose queue of clients is full.
        self._to_ask: dict[Key, tuple[str, int | None]] = {}

    def __enter__(self) -> Survey[Key]:
        return self

    def __exit__(self, *_: object) -> None:
        for key in self.waits_for:
            self.drop(key)
        self._selector.close()

    @property
    def waits_for(self) -> set[Key]:
        """Return the keys of the daemons that may still answer."""
        return {*self._asked, *self._to_ask}

    def fileno(self) -> int:
        """Return the descriptor for select(): readable when receive() has something to do."""
        return self._selector.fileno()

    def ask(self, key: Key, path: str, user_id: int | None = None) -> None:
        """Ask the daemon at the control socket, unless it is another user's than `user_id`."""
        self._to_ask.pop(key, None)
        try:
            client = control_socket.connect_now(path, user_id)
        except BlockingIOError:
            self._to_ask[key] = (path, user_id)
            return
        except OSError:  # no daemon listens there
            return
        with contextlib.suppress(OSError):  # refused already; the answer says why
            client.sendall(self._request)  # a new connection has room for it
        self._asked[key] = client
        self._selector.register(client, selectors.EVENT_READ, (key, bytearray()))

    def drop(self, key: Key) -> None:
        """Wait no longer for this daemon."""
        self._to_ask.pop(key, None)
        if (client := self._asked.pop(key, None)) is not None:
            self._selector.unregister(client)
            client.close()

    def receive(self, timeout_s: float) -> dict[Key, dict[str, object]]:
        """Return the answers that arrive next, or none after that time, which may be 0.

        Returns sooner while a daemon's queue of clients is full: call it again.
        """
        for key, daemon in [*self._to_ask.items()]:
            self.ask(key, *daemon)
        if self._to_ask:
            timeout_s = min(timeout_s, _RETRY_S)
        found = {}
        for ready, _ in self._selector.select(timeout_s):
            key, received = ready.data
            if self._is_complete(self._asked[key], received):
                self.drop(key)
                with contextlib.suppress(ValueError, RecursionError):
                    match json.loads(received):
                        case {"result": dict(result)}:
                            found[key] = result
        return found

    @staticmethod
    def _is_complete(client: socket.socket, received: bytearray) -> bool:
        try:
            chunk = client.recv(CHUNK_SIZE)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        received += chunk
        return not chunk or received.endswith(b"\n") or len(received) > ANSWER_SIZE_MAX
