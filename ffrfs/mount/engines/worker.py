"""The process that serves a native mount: starting it, talking to it, ending it.

It is the program ffrfs-worker (native/worker/worker.cc), a child of the daemon. It opens
the packs and says so over a socket, gets the connection to the kernel through it, and
logs to a pipe. It ends when the socket does, so it never outlives the daemon.

Concurrency: no state but the child's; one thread starts it, the same one talks to it.
Blocking: the daemon calls it before its loop runs.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import signal
import socket
import struct
import subprocess
from collections.abc import Mapping

from ffrfs.errors import MountError, UnverifiedHeaderWarning, from_texts
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.engines.counter_page import CounterPage
from ffrfs.printable import printable

# For tests: another build of the worker (under a sanitizer), or one in a wrapping.
PATH_VARIABLE = "FFRFS_WORKER"
_MESSAGE_SIZE_MAX = 65536
_SHOWN_SIZE = 500  # characters of a line of its log, in an error
# Credentials of clouds are the fetcher's alone: a worker reads hostile packs.
_SECRETS = ("AWS_", "AZURE_", "GOOGLE_", "GCE_", "GCS_", "IDENTITY_", "MSI_")
_FD = struct.Struct("i")
_NUMBER = struct.Struct("<Q")
END_TIMEOUT_S = 1.0


def worker_path() -> str | None:
    """Where the program is; None: it was not built."""
    path = os.environ.get(PATH_VARIABLE)
    if path is None:
        # Beside the native module, which is not loaded for that.
        spec = importlib.util.find_spec("ffrfs._native")
        if spec is None or spec.origin is None:
            return None
        path = os.path.join(os.path.dirname(spec.origin), "ffrfs-worker")
    return path if os.access(path, os.X_OK) else None


class Worker:
    """One worker, from its start to its end."""

    def __init__(
        self,
        request: MountRequest,
        transport: str,
        counters: CounterPage,
        fetcher: int | None = None,
    ) -> None:
        """`transport`: one of settings.TRANSPORTS, whatever the request says.

        `fetcher`: a link to one, which stays the caller's.
        """
        path = worker_path()
        if path is None:
            raise MountError(
                "the native engine was not built (there is no ffrfs-worker): "
                "reinstall ffrfs, or choose --engine pyfuse3"
            )
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.log, log_end = os.pipe()  # lines; read by the daemon
        with theirs:
            fds = (theirs.fileno(), counters.fd)
            try:
                self._process = subprocess.Popen(
                    [path, *_arguments(request, transport, *fds), *_fetching(request, fetcher)],
                    env=_without_secrets(os.environ),
                    pass_fds=fds if fetcher is None else (*fds, fetcher),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log_end,
                    process_group=0,  # what stops the caller does not stop it
                )
            finally:
                os.close(log_end)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for_packs(self) -> list[str]:
        """Wait until the packs are open; return what the user should know, a line each.

        Raises what is wrong with them.
        """
        notices = []
        while True:
            match self._receive():
                case ["notice", line]:
                    notices.append(line)
                case ["unverified", path]:
                    notices.append(str(UnverifiedHeaderWarning.of(path)))
                case ["opened"]:
                    return notices
                case ["failed", *texts]:
                    self._kill()
                    raise from_texts(texts)
                case _:
                    self._kill()
                    raise self._early_end()

    def _receive(self) -> list[str]:
        """The texts of its next message; none: it has ended the talk."""
        message = self._socket.recv(_MESSAGE_SIZE_MAX)
        return [os.fsdecode(text) for text in message.split(b"\0")[:-1]]

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _early_end(self) -> MountError:
        """Why it ended without a message: its last line may say so."""
        os.set_blocking(self.log, False)  # a child of its own may have the other end
        log = b""
        with contextlib.suppress(BlockingIOError):
            log = os.read(self.log, _MESSAGE_SIZE_MAX)
        line = log.decode(errors="backslashreplace").strip().rpartition("\n")[2]
        last = printable(line[:_SHOWN_SIZE])  # whatever the program has written
        text = f"the worker {self.outcome} before the packs were open"
        return MountError(f"{text}: {last}" if last else text)

    def connect(self, connection: int) -> None:
        """Let it serve that connection, which stays ours, too."""
        # A worker that has died by now is noticed by its end.
        with contextlib.suppress(ConnectionError):
            socket.send_fds(self._socket, [b"c"], [connection])

    def take_hints(self, client: int) -> None:
        """Let it follow the hints that come over that socket, which stays ours, too."""
        # One that has died is noticed by its end; one that is stopped, and has many of
        # these before it, must not hold us up. The client sees that it is let go.
        with contextlib.suppress(ConnectionError, BlockingIOError):
            # Not send_fds(), which loses the flag (Python 3.11).
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, _FD.pack(client))
            self._socket.sendmsg([b"h"], [rights], socket.MSG_DONTWAIT)

    def take_fetcher(self, link: int) -> None:
        """Let it ask another fetcher from now on. Raises OSError: it has ended."""
        # Waits for a worker that is stopped: without the link it would read nothing more.
        socket.send_fds(self._socket, [b"f"], [link])

    def limit_cache(self, size_bytes: int) -> None:
        """Tell it what its cache may hold from now on."""
        self._tell(b"l", size_bytes)

    def limit_pushed(self, size_bytes: int) -> None:
        """Tell it how much may be pushed ahead of readers from now on."""
        self._tell(b"p", size_bytes)

    def warm(self, ino: int) -> None:
        """Let it push all files at and below that inode. Raises MountError: it does not listen."""
        if not self._tell(b"w", ino):
            raise MountError("its worker has ended, or is stopped; try again")

    def _tell(self, kind: bytes, number: int) -> bool:
        # One that is stopped, and has many of these before it, gets a size the next time.
        try:
            self._socket.send(kind + _NUMBER.pack(number), socket.MSG_DONTWAIT)
        except (ConnectionError, BlockingIOError):
            return False
        return True

    def reap(self) -> int:
        """Its exit status, when it has ended; a signal's as -number."""
        return self._process.wait()

    @property
    def outcome(self) -> str:
        """What became of it, after reap(): "was killed by SIGABRT"."""
        status = self._process.returncode
        if status >= 0:
            return f"ended with status {status}"
        try:
            return f"was killed by {signal.Signals(-status).name}"
        except ValueError:  # most of the real-time signals have no name
            return f"was killed by signal {-status}"

    def let_go(self) -> None:
        """Tell it to end: it closes the connection, whatever its disks do."""
        self._socket.close()

    def close(self) -> None:
        """End it, and let go of everything. One that a disk holds is not waited for."""
        self.let_go()
        os.close(self.log)
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()


def _arguments(
    request: MountRequest, transport: str, daemon_socket: int, counters: int
) -> list[str]:
    options = request.options
    volume_options = request.volume_options().items()
    arguments = [
        *(f"--pack={pack}" for pack in request.packs),
        f"--daemon-socket={daemon_socket}",
        f"--counters={counters}",
        f"--threads={request.threads}",
        f"--transport={transport}",
        *(f"--option={name}={_option_text(value)}" for name, value in volume_options),
    ]
    arguments += ["--xattr"] if options.xattr else []
    arguments += ["--allow-root"] if options.allow_root else []
    return arguments


def _without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if not name.upper().startswith(_SECRETS) and not name.upper().endswith("_PROXY")
    }


def _fetching(request: MountRequest, fetcher: int | None) -> list[str]:
    if fetcher is None:
        return []
    timeout_s = math.ceil(request.remote_settings().timeout_s)
    return [f"--fetcher-socket={fetcher}", f"--remote-timeout={timeout_s}"]


def _option_text(value: object) -> str:
    return str(int(value) if isinstance(value, bool) else value)
