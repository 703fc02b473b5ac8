"""A server's process: started in a process group of its own, waited for, ended by its id.

It also ends when the thread that started it does, so a killed test leaves no server behind.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

_START_S = 60.0
_END_S = 10.0


class Program:
    """A running server. `log` is what it has printed."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = ["setpriv", "--pdeathsig", "TERM", *command]
        self._environment = {**os.environ, **(environment or {})}
        self.log = log
        self.start()

    def start(self) -> None:
        """Start it, or start it again after `kill`: the same command, hence the same port."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self._environment,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until(self, answers: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + _START_S
        while not answers():
            if self._process.poll() is not None:
                raise RuntimeError(f"{self._command[3]} has ended: {self._end_of_log()}")
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"{self._command[3]} does not answer: {self._end_of_log()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """At once, and all that it has started: as if its machine had lost its power."""
        self._signal_group(signal.SIGKILL)
        self._process.wait(_END_S)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """It takes connections and answers nothing; then it goes on where it was."""
        self._signal_group(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal_group(signal.SIGCONT)

    def end(self) -> None:
        self._signal_group(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        self.kill()

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _end_of_log(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


@contextlib.contextmanager
def running(
    command: Sequence[str],
    log: Path,
    answers: Callable[[], bool],
    *,
    environment: Mapping[str, str] | None = None,
    patient: bool = True,
) -> Iterator[Program]:
    """What is not patient is killed at its end: some servers take ten seconds to say goodbye."""
    program = Program(command, log, environment=environment)
    try:
        program.wait_until(answers)
        yield program
    finally:
        if patient:
            program.end()
        else:
            program.kill()


def free_ports(count: int) -> list[int]:
    """Ports that no one listens at. All are held until the last is found, so they differ."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def require(name: str, *, remedy: str) -> str:
    """The path of a program that the tests need, beside our interpreter or on PATH."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"], "/usr/sbin"])
    if (found := shutil.which(name, path=path)) is None:
        raise RuntimeError(f"there is no {name} here ({remedy})")
    return found
