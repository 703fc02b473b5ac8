"""Child processes: those that decode hostile bytes see no secrets, and have limits.

A child runs serve() of a module, which takes messages from a connection and answers them.

Not here: the work of children (sandbox.py, shrink.py, counting.py). Concurrency: one thread for
each child.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection

# Libraries start a thread for each core, each with much address space, and cannot use them here.
_FEW_THREADS = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MALLOC_ARENA_MAX"), "1")
_SETTINGS = _FEW_THREADS | {"ARROW_DEFAULT_MEMORY_POOL": "system"}
_NEEDED_BY_PYTHON = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH")
_PROGRAM = "import sys, json; sys.path[:] = json.loads(sys.argv[2]); from {} import serve; serve()"


class EndedError(Exception):
    """The child has ended, or has sent an invalid answer."""


class Child:
    """A process that runs serve() of a module. `arguments`: sys.argv there, from 3 on.

    `is_trusted`: the child has the environment, working directory and stderr of this process.
    """

    def __init__(self, module: str, *arguments: str, is_trusted: bool = False) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._connection = Connection(ours.detach())
            places = json.dumps([os.path.abspath(place) for place in sys.path])
            words = [_PROGRAM.format(module), str(theirs.fileno()), places, *arguments]
            needed = {name: os.environ[name] for name in _NEEDED_BY_PYTHON if name in os.environ}
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", *words],
                pass_fds=[theirs.fileno()],
                env={**(os.environ if is_trusted else needed), **_SETTINGS},
                cwd=None if is_trusted else "/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None if is_trusted else subprocess.DEVNULL,
                start_new_session=True,  # signals of a terminal do not reach it
            )

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Kill the child when this takes longer, also if it takes no message."""
        timer = threading.Timer(seconds, self.process.kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def send(self, message: bytes) -> None:
        """Raises EndedError."""
        try:
            self._connection.send_bytes(message)
        except OSError as error:
            raise EndedError from error

    def receive(self, size_max: int | None = None) -> bytes:
        """Raises EndedError, also if the message is larger."""
        try:
            return self._connection.recv_bytes(size_max)
        except (EOFError, OSError) as error:
            raise EndedError from error

    def end(self) -> None:
        self._connection.close()
        self.process.kill()
        self.process.wait()


# All code below runs in the child.


def connection() -> Connection:
    return Connection(int(sys.argv[1]))


def limit(addresses_max: int) -> None:
    """Limit this process to so many bytes of address space; it writes no file."""
    for what, most in (
        (resource.RLIMIT_AS, addresses_max),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        lower(what, most)


def lower(what: int, most: int) -> None:
    """Set a limit of this process, unless it is lower already: an ordinary user cannot raise it."""
    _, hard = resource.getrlimit(what)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (most, most))
