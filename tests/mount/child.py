"""Child processes that touch a mount, so that the test process never hangs with it.

A child runs a function of probes.py, or of another module beside it. A function that returns
is called once by ask(), or by a Caller, whose process then calls the next one. A generator is
a conversation: each next() runs it to its next yield. Every wait has a limit. A child that
exceeds it is killed, and nobody waits long for its end, as the kernel may hold it.

Not here: the child's side (child_program.py), and the process that forks it (preloaded.py).
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.mount.child_program import LENGTH
from tests.mount.preloaded import preloaded
from tests.mount.waiting import files_in_calls

TIMEOUT_S = 60.0
_CHUNK_SIZE = 1 << 20


class ChildTimeoutError(Exception):
    """The child did not answer in time: the mount that it touched hangs."""


class Child:
    """A process that runs `function(*arguments)`."""

    def __init__(
        self, function: Callable[..., Any], *arguments: Any, user_id: int | None = None
    ) -> None:
        self.name = function.__name__
        their_in, ours = os.pipe()
        self._stdin = open(ours, "wb")  # noqa: SIM115 - kill() closes them
        ours, their_out = os.pipe()
        self._stdout = open(ours, "rb", buffering=0)  # noqa: SIM115
        self._process = preloaded().start_child(their_in, their_out)
        self.pid = self._process.pid
        os.close(their_in)
        os.close(their_out)
        self._send((function.__module__, self.name, arguments, user_id))

    def next(self, timeout_s: float = TIMEOUT_S) -> Any:
        """Return the next value that the function yields or returns; raise its exception."""
        self.ask_next()
        return self.answer(timeout_s)

    def ask_next(self) -> None:
        self._send(None)

    def ask_other(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Let the process run another function from now on."""
        self.name = function.__name__
        self._send((function.__module__, self.name, arguments, None))

    def answer(self, timeout_s: float = TIMEOUT_S) -> Any:
        deadline_s = time.monotonic() + timeout_s
        (size,) = LENGTH.unpack(self._receive(LENGTH.size, deadline_s))
        succeeded, value = pickle.loads(self._receive(size, deadline_s))
        if not succeeded:
            raise value
        return value

    def signal_end(self) -> None:
        """Send SIGUSR1 to end a function that runs until then."""
        os.kill(self.pid, signal.SIGUSR1)

    def has_answered(self) -> bool:
        return bool(select.select([self._stdout], [], [], 0)[0])

    def wait_in_call(self, path: str) -> None:
        """Wait until the kernel holds the child in a call on this open file, or it answers."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while path not in files_in_calls(self.pid) and not self.has_answered():
            if time.monotonic() > deadline_s:
                raise ChildTimeoutError(f"{self.name} does not wait for {path}")
            time.sleep(0.005)

    def wait(self, timeout_s: float) -> None:
        """Wait until the process has ended. Raises TimeoutError."""
        self._process.wait(timeout_s)

    def kill(self) -> None:
        """Kill the process; wait a little for its end, not for ever."""
        if self._stdout.closed:
            return
        with self._process, contextlib.suppress(TimeoutError):
            self._process.kill_group()
            self._process.wait(5)
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _send(self, message: Any) -> None:
        data = pickle.dumps(message)
        self._stdin.write(LENGTH.pack(len(data)) + data)
        self._stdin.flush()

    def _receive(self, size: int, deadline_s: float) -> bytes:
        fd = self._stdout.fileno()
        data = bytearray()
        while len(data) < size:
            if not select.select([fd], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
                raise ChildTimeoutError(f"{self.name} has not answered in time")
            chunk = os.read(fd, min(size - len(data), _CHUNK_SIZE))
            if not chunk:
                raise EOFError(f"the child has died in {self.name}")
            data += chunk
        return bytes(data)


class Caller:
    """A process that calls one function after another, as one process for each takes longer."""

    def __init__(self) -> None:
        self._child: Child | None = None

    def ask(
        self, function: Callable[..., Any], *arguments: Any, timeout_s: float = TIMEOUT_S
    ) -> Any:
        """Like ask() below. A process that does not answer, or dies, is not used again."""
        if self._child is None:
            self._child = Child(function, *arguments)
            self._child.ask_next()
        else:
            self._child.ask_other(function, *arguments)
        try:
            return self._child.answer(timeout_s)
        except (ChildTimeoutError, EOFError):
            self.close()
            raise

    def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None


@contextlib.contextmanager
def child(
    function: Callable[..., Any], *arguments: Any, user_id: int | None = None
) -> Iterator[Child]:
    process = Child(function, *arguments, user_id=user_id)
    try:
        yield process
    finally:
        process.kill()


def ask(
    function: Callable[..., Any],
    *arguments: Any,
    timeout_s: float = TIMEOUT_S,
    user_id: int | None = None,
) -> Any:
    """Call the function in a child of its own; return its result, or raise its exception."""
    with child(function, *arguments, user_id=user_id) as process:
        return process.next(timeout_s)
