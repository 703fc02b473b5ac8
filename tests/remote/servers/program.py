"""A server's process: it has a session of its own, is waited for, and ends with all its children.

It also ends when the thread that started it does, so a killed test leaves no server behind.
If the environment lacks something that a server needs, the test skips with the reason; with
CI=true it fails.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import itertools
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar

from tests.mount.waiting import is_at_rest

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_PORT_MIN = 10_000
_START_S = 240.0
_END_S = 10.0
_ANSWER_S = 10.0


class Program:
    """A running server. `log` is the file of its output."""

    def __init__(
        self, command: Sequence[str], log: Path, *, environment: Mapping[str, str] | None = None
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
        """Kill it at once with all that it has started, as if its machine had lost its power."""
        self._signal_all(signal.SIGKILL)
        self._process.wait(_END_S)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Meanwhile it takes connections and answers nothing; then it goes on where it was."""
        self._signal_all(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal_all(signal.SIGCONT)

    def end(self) -> None:
        self._signal_all(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        self.kill()

    def is_at_rest(self) -> bool:
        """Return whether its processes sleep: then they have done all that clients asked for."""
        return all(map(is_at_rest, self._processes()))

    def _signal_all(self, number: signal.Signals) -> None:
        """Signal its group, and processes of its session in other groups, as Ray's workers."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
        for pid in self._processes():
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(pid) != self._process.pid:
                    os.kill(pid, number)

    def _processes(self) -> Iterator[int]:
        for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(pid) == self._process.pid:
                    yield pid

    def _end_of_log(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


@dataclass(frozen=True)
class Server:
    """A running HTTP server at a port of its own."""

    program: Program
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answers(self) -> bool:
        return answers_at(f"{self.url}/")

    def start_again(self) -> None:
        """Start it after `program.kill()`; return when it answers."""
        self.program.start()
        self.program.wait_until(self.answers)


class Answering(Protocol):
    @property
    def answers(self) -> Callable[[], bool]: ...


A = TypeVar("A", bound=Answering)


@contextlib.contextmanager
def serving(
    made_of: Callable[[Program], A],
    command: Sequence[str],
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
    patient: bool = True,
) -> Iterator[A]:
    """Run a program, and yield what `made_of` makes of it, once that answers.

    If it is not `patient`, kill it at its end: some servers take ten seconds to end.
    """
    program = Program(command, log, environment=environment)
    try:
        made = made_of(program)
        program.wait_until(made.answers)
        yield made
    finally:
        if patient:
            program.end()
        else:
            program.kill()


class _Waited(NamedTuple):
    program: Program
    answers: Callable[[], bool]


@contextlib.contextmanager
def running(
    command: Sequence[str], log: Path, answers: Callable[[], bool], **how: Any
) -> Iterator[Program]:
    """Run a program that is no HTTP server in the same way."""
    with serving(lambda program: _Waited(program, answers), command, log, **how) as waited:
        yield waited.program


@contextlib.contextmanager
def own_place(name: str, port_count: int = 1) -> Iterator[tuple[Path, list[int]]]:
    """Yield a folder and ports for a server."""
    with (
        tempfile.TemporaryDirectory(prefix=f"ffrfs-{name}-") as place,
        free_ports(port_count) as ports,
    ):
        yield Path(place), ports


def ask(control_port: int, **order: object) -> Any:
    """Return the answer of one of our own servers, to an order or to none: a line of JSON each."""
    with socket.create_connection(("127.0.0.1", control_port), 30) as control:
        if order:
            control.sendall(json.dumps(order).encode() + b"\n")
        with control.makefile("rb") as replies:
            return json.loads(replies.readline())


def takes_orders(control_port: int, **order: object) -> bool:
    with contextlib.suppress(OSError):
        ask(control_port, **order)
        return True
    return False


@contextlib.contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """Yield loopback ports that no one but the caller's servers listens at, until the end.

    They are below those that the kernel gives to connections, and another process that calls
    this gets others: while a port is held, there is an abstract socket with its number.
    """
    end = int(_EPHEMERAL.read_text().split()[0])
    if end <= _PORT_MIN:  # the kernel gives all ports to connections
        end = 1 << 16
    ports = random.SystemRandom().sample(range(_PORT_MIN, end), end - _PORT_MIN)
    with contextlib.ExitStack() as held:
        free = filter(lambda port: _hold(port, held), ports)
        yield list(itertools.islice(free, count))


def _hold(port: int, held: contextlib.ExitStack) -> bool:
    with contextlib.ExitStack() as stack:
        mark = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        try:
            mark.bind(f"\0ffrfs-test-port-{port}")
            with socket.socket() as trial:
                trial.bind(("127.0.0.1", port))
                trial.listen()
                socket.create_connection(("127.0.0.1", port)).close()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            lacks(f"servers cannot be reached at 127.0.0.1 here ({error.strerror})")
        held.enter_context(stack.pop_all())
    return True


def answers_at(url: str) -> bool:
    """Return whether an HTTP server answers there, whatever it says."""
    context = ssl._create_unverified_context()
    handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    try:
        urllib.request.build_opener(*handlers).open(url, timeout=_ANSWER_S).close()
    except urllib.error.HTTPError as error:
        error.close()
    except (OSError, http.client.HTTPException):
        return False
    return True


def require(name: str, *, remedy: str) -> str:
    """Return the path of a program that tests need, beside our interpreter or on PATH."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"], "/usr/sbin"])
    if (found := shutil.which(name, path=path)) is None:
        lacks(f"there is no {name} here ({remedy})")
    return found


def lacks(what: str) -> NoReturn:
    """Skip the test, or fail: the environment lacks something that it needs."""
    if "PYTEST_CURRENT_TEST" in os.environ and os.environ.get("CI") != "true":
        import pytest

        pytest.skip(what)
    raise RuntimeError(what)
