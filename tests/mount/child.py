"""Child processes that touch a mount, so that the test process never hangs with it.

What they do is a function of probes.py, or of another module beside it. One that returns
is asked once (ask), or by a Caller, whose process goes on to the next; one that yields is a
conversation: each next() runs it to its next yield. Every wait has a limit, and a child that
overruns it is killed, and not waited for, as the kernel may hold it.

Run as a program, this file is the child's side.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

TIMEOUT_S = 30.0
_LENGTH = struct.Struct("<I")
_CHUNK_SIZE = 1 << 20


class ChildTimeoutError(Exception):
    """The child did not answer in time: what it touched hangs."""


class Child:
    """A process that runs `function(*arguments)`."""

    def __init__(
        self, function: Callable[..., Any], *arguments: Any, user_id: int | None = None
    ) -> None:
        self.name = function.__name__
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._send((function.__module__, self.name, arguments, user_id))

    @property
    def pid(self) -> int:
        return self._process.pid

    def next(self, timeout_s: float = TIMEOUT_S) -> Any:
        """What the function yields or returns next; raises what it raises."""
        self.ask_next()
        return self.answer(timeout_s)

    def ask_next(self) -> None:
        self._send(None)

    def ask_other(self, function: Callable[..., Any], *arguments: Any) -> None:
        """From now on it runs another function."""
        self.name = function.__name__
        self._send((function.__module__, self.name, arguments, None))

    def answer(self, timeout_s: float = TIMEOUT_S) -> Any:
        deadline_s = time.monotonic() + timeout_s
        (size,) = _LENGTH.unpack(self._receive(_LENGTH.size, deadline_s))
        succeeded, value = pickle.loads(self._receive(size, deadline_s))
        if not succeeded:
            raise value
        return value

    def signal_end(self) -> None:
        """Tell a function that goes on until SIGUSR1 to come to its end."""
        os.kill(self._process.pid, signal.SIGUSR1)

    def has_answered(self) -> bool:
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], 0)[0])

    def kill(self) -> None:
        """End it at once; waits a little, not for ever."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _send(self, message: Any) -> None:
        assert self._process.stdin is not None
        data = pickle.dumps(message)
        self._process.stdin.write(_LENGTH.pack(len(data)) + data)
        self._process.stdin.flush()

    def _receive(self, size: int, deadline_s: float) -> bytes:
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
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
    """A process that calls one function after another; to start one for each takes longer."""

    def __init__(self) -> None:
        self._child: Child | None = None

    def ask(
        self, function: Callable[..., Any], *arguments: Any, timeout_s: float = TIMEOUT_S
    ) -> Any:
        """As ask() below. A process that does not answer, or dies, is not asked again."""
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
    """Call the function in a child of its own, and give back what it returns or raises."""
    with child(function, *arguments, user_id=user_id) as process:
        return process.next(timeout_s)


def _receive_message() -> Any:
    header = sys.stdin.buffer.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        sys.exit(0)
    return pickle.loads(sys.stdin.buffer.read(*_LENGTH.unpack(header)))


def _answers(
    module: str, name: str, arguments: tuple[Any, ...], user_id: int | None
) -> Iterator[Any]:
    function = getattr(importlib.import_module(module), name)
    if user_id is not None:
        os.setgroups([])
        os.setresgid(user_id, user_id, user_id)
        os.setresuid(user_id, user_id, user_id)
    if inspect.isgeneratorfunction(function):
        yield from function(*arguments)
    else:
        yield function(*arguments)


def main() -> None:
    answers = _answers(*_receive_message())
    while True:
        other = _receive_message()
        if other is not None:
            answers = _answers(*other)
        try:
            answer = (True, next(answers))
        except StopIteration:
            answer = (True, None)
        except Exception as error:
            answer = (False, error)
        data = pickle.dumps(answer)
        sys.stdout.buffer.write(_LENGTH.pack(len(data)) + data)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
