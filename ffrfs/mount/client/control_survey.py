"""Asking many daemons the same, all at once: a thousand of them have two seconds.

Not here: asking one, with an error that says what is wrong (control_client.py).

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
        with Survey(batch, command) as survey:
            deadline_of_batch_s = now_s + (deadline_s - now_s) * share
            while not survey.is_over and (left_s := deadline_of_batch_s - time.monotonic()) > 0:
                survey.receive(left_s)
            answers += survey.answers
    return answers


class Survey(contextlib.ExitStack):
    """A connection to each of some daemons, which are sent the command at once.

    `answers`: of each daemon; None: none yet, or there will be none. Use it with `with`.
    """

    def __init__(
        self, paths: Sequence[str], command: str, user_ids: Sequence[int | None] | None = None
    ) -> None:
        """`user_ids`: whose daemon must be there; None: anybody's. Another's is not asked."""
        super().__init__()
        self.answers: list[dict[str, object] | None] = [None] * len(paths)
        self._request = request(command)
        self._selector = self.enter_context(selectors.EpollSelector())
        self._user_ids = user_ids or [None] * len(paths)
        self._to_ask = [one for one in enumerate(paths) if not self._ask(*one)]

    @property
    def is_over(self) -> bool:
        """No daemon will answer any more that has not."""
        return not (self._to_ask or self._selector.get_map())

    @property
    def waits_for(self) -> set[int]:
        """The numbers of the daemons that may still answer."""
        asked = (key.data[0] for key in self._selector.get_map().values())
        return {*asked, *(number for number, _ in self._to_ask)}

    def fileno(self) -> int:
        """For select(): readable when receive() has something to do."""
        return self._selector.fileno()

    def receive(self, timeout_s: float) -> None:
        """Take what arrives next, or give up after that time, which may be 0.

        Returns sooner while a daemon's queue of clients is full: call it again.
        """
        self._to_ask = [one for one in self._to_ask if not self._ask(*one)]
        if self._to_ask:
            timeout_s = min(timeout_s, _RETRY_S)
        for key, _ in self._selector.select(timeout_s):
            self._receive(key)

    def _ask(self, number: int, path: str) -> bool:
        """False: try again."""
        try:
            client = control_socket.connect_now(path, self._user_ids[number])
        except BlockingIOError:
            return False
        except OSError:  # no daemon is there
            return True
        self.enter_context(client)
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
                    self.answers[number] = result
