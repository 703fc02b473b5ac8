"""The ffrfs command, and children, as forks of a process that has imported all modules already.

The suite runs the command some thousand times, and its start takes longer than its work: 160 ms
of CPU for a mount, most of it imports. A fork has the same arguments, environment, directory,
umask, cores, descriptors and session as a started program; the same command line, for code that
looks for a daemon; and the user and mount namespace of a machine.py. A test that needs another
start (a limit, another namespace) uses subprocess.

Run as a program, this file is the process that forks. Each test process has one, which ends
with it.
Concurrency: any thread of the test process.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import io
import json
import os
import re
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, Self

_PRELOADED = (
    *("ffrfs.cli.main", "ffrfs.cli.mount", "ffrfs.cli.umount", "ffrfs.cli.foreign_file"),
    *("ffrfs.cli.check", "ffrfs.cli.prefetch", "ffrfs.cli.ps", "ffrfs.cli.stats"),
    *("ffrfs.cli.warm", "ffrfs.cli.log", "ffrfs.mount.client.health", "ffrfs.mount.daemon.check"),
    *("ffrfs.mount.client.mount_log", "ffrfs.mount.client.hint_paths", "ffrfs.cache.sparse"),
    *("ffrfs.mount.daemon.background", "ffrfs.mount.daemon.daemon", "ffrfs.mount.daemon.server"),
    *("ffrfs.mount.engines.sidecars", "encodings.ascii", "ffrfs.files.replacing"),
    *("ffrfs.mount.engines.native_engine", "ffrfs.mount.engines.pyfuse3_engine"),
    *("tests.mount.child_program", "tests.mount.probes", "tests.mount.stalling_disk"),
)
_COMMAND = (sys.executable, "-m", "ffrfs")
_COMMAND_LINE_SIZE = 8192  # bytes
_MESSAGE_SIZE = 1 << 20
_CHUNK_SIZE = 1 << 16
# Indexes into the fields of /proc/PID/stat that come after the name.
_ARG_START, _ARG_END = 45, 46
_CLONE_NEWNS = 0x20000
_PR_SET_DUMPABLE = 4

_libc = ctypes.CDLL(None, use_errno=True)


class Preloaded:
    """The tests' side of the process that forks."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), " " * _COMMAND_LINE_SIZE],
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._socket = ours
        self._lock = threading.Lock()
        self._environment = _of_interpreter(os.environ)

    @property
    def pid(self) -> int:
        return self._process.pid

    def can_run(self, arguments: Sequence[str], environment: dict[str, str]) -> bool:
        """Return whether PYTHON… variables, read at start only, are the same, and the line fits."""
        return (
            _of_interpreter(environment) == self._environment
            and len(_command_line(arguments)) <= _COMMAND_LINE_SIZE
        )

    def run(
        self,
        arguments: Sequence[str],
        environment: dict[str, str],
        timeout_s: float,
        **elsewhere: object,
    ) -> tuple[int, str, str]:
        """Return status, standard output and error.

        `elsewhere`: directory, namespace (its path below /proc), user_id. Raises
        subprocess.TimeoutExpired, after it has killed the command.
        """
        pipes = [os.pipe() for _ in range(3)]
        with open(os.devnull, "rb") as nothing:
            fds = [nothing.fileno(), *(writing for _, writing in pipes)]
            try:
                message = {"command": arguments, "environment": environment, **elsewhere}
                process = self._start(message, fds)
            finally:
                for _, writing in pipes:
                    os.close(writing)
        with process:
            try:
                out, err, status = _read_all([reading for reading, _ in pipes], timeout_s)
                process.wait(timeout_s)
            except TimeoutError:
                process.kill_group()
                raise subprocess.TimeoutExpired(["ffrfs", *arguments], timeout_s) from None
        # A command without a status was killed; only its parent knows by which signal.
        return int(status or b"-9"), _text(out), _text(err)

    def start_child(self, stdin: int, stdout: int) -> Forked:
        """Start a process that calls functions for child.py."""
        return self._start_main("tests.mount.child_program", [], [stdin, stdout, 2])

    def start_program(self, module: str, *arguments: str, fd: int) -> Forked:
        """Run the module's main() with this descriptor as standard input and output."""
        return self._start_main(module, arguments, [fd, fd, 2])

    def _start_main(self, module: str, arguments: Sequence[str], fds: list[int]) -> Forked:
        message = {"module": module, "arguments": arguments, "environment": dict(os.environ)}
        return self._start(message, fds)

    def _start(self, message: dict[str, object], fds: list[int]) -> Forked:
        message = {
            "directory": os.getcwd(),
            "cores": sorted(os.sched_getaffinity(0)),
            "umask": _umask(),
            **message,
        }
        with self._lock:  # or two threads get each other's answer
            socket.send_fds(self._socket, [json.dumps(message).encode()], fds)
            pid, (pidfd,), _, _ = socket.recv_fds(self._socket, _CHUNK_SIZE, 1)
            return Forked(int(pid), pidfd)


@functools.cache
def preloaded() -> Preloaded:
    """Return the one of this process."""
    return Preloaded()


class Forked:
    """A process that no parent waits for: once it has ended, another one may get its number.

    With many threads on a machine, numbers are used again within minutes.
    """

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid, self._pidfd = pid, pidfd

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._pidfd)

    def wait(self, timeout_s: float) -> None:
        """Wait until it has ended. Raises TimeoutError."""
        if not select.select([self._pidfd], [], [], timeout_s)[0]:
            raise TimeoutError

    def has_ended(self) -> bool:
        return bool(select.select([self._pidfd], [], [], 0)[0])

    def kill_group(self) -> None:
        if not self.has_ended():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


def _of_interpreter(environment: Any) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith("PYTHON")}


def _command_line(arguments: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(word) + b"\0" for word in (*_COMMAND, *arguments))


def _umask() -> int:
    """Return the umask without setting it for all threads, as os.umask() would."""
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"^Umask:\s+(\d+)$", status, re.MULTILINE)[0], 8)


def _text(data: bytes) -> str:
    """Decode it as subprocess does."""
    return io.TextIOWrapper(io.BytesIO(data)).read()


def _read_all(fds: list[int], timeout_s: float) -> list[bytes]:
    """Return all data of each descriptor, once all have ended."""
    deadline_s = time.monotonic() + timeout_s
    data = {fd: bytearray() for fd in fds}
    try:
        with selectors.DefaultSelector() as selector:
            for fd in fds:
                selector.register(fd, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(max(0.0, deadline_s - time.monotonic()))
                if not ready:
                    raise TimeoutError
                for key, _ in ready:
                    chunk = os.read(key.fd, _CHUNK_SIZE)
                    data[key.fd] += chunk
                    if not chunk:
                        selector.unregister(key.fd)
    finally:
        for fd in fds:
            os.close(fd)
    return [bytes(data[fd]) for fd in fds]


# The process that forks.


def _serve(requests: socket.socket) -> None:
    for module in _PRELOADED:
        importlib.import_module(module)
    gc.freeze()  # or the first garbage collection of each fork copies all the memory
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the forks
    while True:
        data, fds, _, _ = socket.recv_fds(requests, _MESSAGE_SIZE, 4)
        if not data:
            return
        waiting, going = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(going)
            os.read(waiting, 1)  # it must not end before its pidfd is open
            os.close(waiting)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _become(json.loads(data), fds, requests)
        pidfd = os.pidfd_open(pid)
        socket.send_fds(requests, [str(pid).encode()], [pidfd])
        for fd in (*fds, waiting, going, pidfd):
            os.close(fd)


def _become(message: dict[str, Any], fds: list[int], requests: socket.socket) -> NoReturn:
    status = 1
    try:
        requests.close()
        os.setsid()
        for standard, fd in enumerate(fds[:3]):
            os.dup2(fd, standard)
            os.close(fd)
        if "namespace" in message:
            _enter(message["namespace"])
        os.chdir(message["directory"])
        os.sched_setaffinity(0, message["cores"])
        os.umask(message["umask"])
        os.environ.clear()
        os.environ.update(message["environment"])
        if message.get("user_id"):
            _become_user(message["user_id"])
        if "command" in message:
            status = _run_command(message["command"])
            os.write(fds[3], str(status).encode())
        else:
            sys.argv[1:] = message["arguments"]
            importlib.import_module(message["module"]).main()
            status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _enter(namespace: str) -> None:
    fd = os.open(namespace, os.O_RDONLY)
    assert _libc.setns(fd, _CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
    os.close(fd)


def _become_user(user_id: int) -> None:
    os.setgroups([])
    os.setresgid(user_id, user_id, user_id)
    os.setresuid(user_id, user_id, user_id)
    # As after a start; otherwise root owns its files in /proc.
    assert _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0) == 0


def _run_command(arguments: list[str]) -> int:
    from ffrfs.cli.main import main

    _show_command_line(arguments)
    sys.argv = ["ffrfs", *arguments]
    try:
        status = main(arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def _show_command_line(arguments: Sequence[str]) -> None:
    """Overwrite the line that the kernel shows, in memory of ours, as setproctitle does."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    line = _command_line(arguments).ljust(end - start, b"\0")
    ctypes.memmove(start, line, end - start)


if __name__ == "__main__":
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with socket.socket(fileno=int(sys.argv[1])) as incoming:
        _serve(incoming)
