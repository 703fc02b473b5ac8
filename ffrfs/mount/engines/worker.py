"""The process that serves a native mount: starting it, talking to it, ending it.

It is the program ffrfs-worker (native/worker/worker.cc), a child of the daemon. It opens
the packs and reports that over a socket, gets the connection to the kernel through it, and
logs to a pipe. It ends when the socket is closed: by the daemon, or when neither the daemon nor
its guardian lives.

Concurrency: no state but the child's; one thread starts it, the same one talks to it.
Blocking: the daemon calls it before its loop runs.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import socket
import struct
import subprocess
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from io import FileIO

from ffrfs.errors import MountError, UnverifiedHeaderWarning, from_texts
from ffrfs.files.closing import closing_fd
from ffrfs.files.interpreter import starting_process
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.engines.counter_page import CounterPage
from ffrfs.mount.engines.kept_engine import KeptEngine, KeptProcess
from ffrfs.mount.engines.worker_deaths import WorkerDeaths, outcome_of
from ffrfs.mount.kernel.pack_versions import MOUNT_AGAIN
from ffrfs.mount.kernel.system_call import pidfd_open
from ffrfs.printable import printable

# Tests set it to another build of the worker (under a sanitizer), or to a wrapper.
PATH_VARIABLE = "FFRFS_WORKER"
_MESSAGE_SIZE_MAX = 65536
_SHOWN_SIZE = 500  # characters of a line of the worker's log, in an error
# Only the fetcher gets credentials of clouds: a worker reads hostile packs.
_SECRETS = ("AWS_", "AZURE_", "GOOGLE_", "GCE_", "GCS_", "IDENTITY_", "MSI_")
_ID_SIZE = 8
_FD = struct.Struct("i")
_NUMBER = struct.Struct("<Q")
END_TIMEOUT_S = 1.0


def worker_path() -> str | None:
    """Return the path of the program, or None if it was not built."""
    path = os.environ.get(PATH_VARIABLE) or beside_native("ffrfs-worker")
    return path if path and os.access(path, os.X_OK) else None


def beside_native(program: str) -> str | None:
    """Return the path of a program beside the native module, which need not be loaded for that."""
    spec = importlib.util.find_spec("ffrfs._native")
    if spec is None or spec.origin is None:
        return None
    return os.path.join(os.path.dirname(spec.origin), program)


class Worker:
    """One worker, from its start to its end."""

    def __init__(
        self,
        request: MountRequest,
        counters: CounterPage,
        fetcher: int | None = None,
        deaths: WorkerDeaths | None = None,
        before: Worker | None = None,
    ) -> None:
        """Start the worker. `fetcher`: a link to a fetcher, which stays the caller's.

        `deaths`: of the workers before it. `before`: the one that it replaces, whose files it
        shows.
        """
        self._title = request.title
        self.identities = bytearray()  # a few bytes for each file that it has opened
        self.last_files: dict[str, str] = {}  # the last one in each directory
        self._expected = None if before is None else bytes(before.identities)
        path = worker_path()
        if path is None:
            raise MountError(
                "the native engine was not built (there is no ffrfs-worker): "
                "reinstall ffrfs, or choose --engine pyfuse3"
            )
        self._process: subprocess.Popen[bytes] | KeptProcess
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, contextlib.ExitStack() as failed:
            failed.enter_context(self._socket)
            self.log, log_end = os.pipe()  # the daemon reads its lines
            failed.callback(os.close, self.log)
            fds = (theirs.fileno(), counters.fd)
            with closing_fd(log_end), starting_process():
                self._process = subprocess.Popen(
                    [
                        *(path, *_arguments(request, *fds)),
                        *_fetching(request, fetcher),
                        *(() if before is None else _last_files(before)),
                        *(() if deaths is None else _blamed(deaths)),
                    ],
                    env=without_secrets(os.environ),
                    pass_fds=fds if fetcher is None else (*fds, fetcher),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log_end,
                    process_group=0,  # signals that stop the caller's group do not reach it
                )
            failed.callback(self._process.kill)
            self.process = pidfd_open(self._process.pid)
            failed.pop_all()

    @classmethod
    def of(cls, kept: KeptEngine, request: MountRequest) -> Worker:
        """Return a worker that another daemon has started."""
        worker = cls.__new__(cls)
        worker._title = request.title
        worker.identities = bytearray.fromhex(kept.identities)
        worker.last_files = {os.path.dirname(file): file for file in kept.last_files}
        worker.process = kept.descriptors["process"]
        worker._process = KeptProcess(worker.process)
        worker._socket = socket.socket(fileno=kept.descriptors["worker"])
        worker.log = kept.descriptors["log"]
        return worker

    def kept(self) -> dict[str, int]:
        """Return the descriptors that of() takes; they stay the worker's."""
        return {"worker": self._socket.fileno(), "log": self.log, "process": self.process}

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for_packs(self) -> list[str]:
        """Wait until the packs are open; return warnings for the user, one line each.

        Raises the error of the pack that cannot be opened, or MountError if it is not the one
        that the worker before had.
        """
        # A copy, because drop() may be called meanwhile: the thread that waits here is abandoned.
        with open(os.dup(self.log), "rb", buffering=0) as log:
            return self._wait_for_packs(log)

    def _wait_for_packs(self, log: FileIO) -> list[str]:
        notices = []
        expected = self._expected
        while True:
            match self._receive():
                case ["notice", line]:
                    notices.append(line)
                case ["unverified", path]:
                    notices.append(str(UnverifiedHeaderWarning.of(path)))
                case ["file", path, identity]:
                    self.identities += blake2b(os.fsencode(identity), digest_size=_ID_SIZE).digest()
                    if expected is not None and not expected.startswith(self.identities):
                        raise self._other_pack(path)
                    folder = os.path.dirname(path)
                    last = self.last_files.get(folder, path)
                    self.last_files[folder] = max(last, path, key=os.fsencode)
                case ["opened"]:
                    if expected is not None and expected != self.identities:
                        raise self._other_pack(self._title)
                    return notices
                case ["failed", *texts]:
                    self.kill()
                    raise from_texts(texts)
                case _:
                    raise self._early_end(log)

    def _receive(self) -> list[str]:
        """Return the texts of the next message; none if the worker has closed the socket."""
        message = self._socket.recv(_MESSAGE_SIZE_MAX)
        return [os.fsdecode(text) for text in message.split(b"\0")[:-1]]

    def _other_pack(self, path: str) -> MountError:
        self.kill()
        what = "it was changed or replaced since it was mounted"
        return MountError(f"{path}: {what}: {MOUNT_AGAIN}")

    def kill(self) -> None:
        """End the worker at once, without waiting for its end."""
        self._process.kill()

    def _early_end(self, log: FileIO) -> MountError:
        """Return the error for an end without a message; the log's last line may say the reason."""
        self.kill()
        outcome = outcome_of(self.reap())
        os.set_blocking(log.fileno(), False)  # a child of the worker may have the other end
        lines = (log.read(_MESSAGE_SIZE_MAX) or b"").decode(errors="backslashreplace")
        line = lines.strip().rpartition("\n")[2]
        last = printable(line[:_SHOWN_SIZE])  # the line may have any bytes
        text = f"the worker {outcome} before the packs were open"
        return MountError(f"{text}: {last}" if last else text)

    def connect(self, connection: int) -> None:
        """Let the worker serve the connection; the caller keeps its own descriptor."""
        # The daemon notices by other means that a worker has died.
        with contextlib.suppress(ConnectionError):
            socket.send_fds(self._socket, [b"c"], [connection])

    def take_hints(self, client: int) -> None:
        """Let the worker follow the hints of a socket; the caller keeps its own descriptor."""
        # A dead worker is noticed by other means; a stopped worker with a full socket must not
        # block the daemon. The client sees that its socket is closed.
        with contextlib.suppress(ConnectionError, BlockingIOError):
            # send_fds() would lose the flag (Python 3.11).
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, _FD.pack(client))
            self._socket.sendmsg([b"h"], [rights], socket.MSG_DONTWAIT)

    def take_fetcher(self, link: int) -> None:
        """Let the worker use another fetcher from now on. Raises OSError if it has ended."""
        # Waits for a worker that is stopped: without the link it could read no more blocks.
        socket.send_fds(self._socket, [b"f"], [link])

    def limit_cache(self, size_bytes: int) -> None:
        """Set the limit of the worker's cache."""
        self._tell(b"l", size_bytes)

    def limit_pushed(self, size_bytes: int) -> None:
        """Set the limit of bytes that are pushed ahead of readers."""
        self._tell(b"p", size_bytes)

    def warm(self, ino: int) -> None:
        """Let the worker push all files at and below the inode. Raises MountError if it cannot.

        If the worker has ended, nothing happens: the caller repeats this once another one serves.
        """
        if not self._tell(b"w", ino):
            raise MountError("its worker is stopped; try again")

    def _tell(self, kind: bytes, number: int) -> bool:
        """Return False if the worker is stopped, and its socket full."""
        if self._socket.fileno() < 0:  # it was let go
            return True
        # If the socket is full, a later call brings the size.
        try:
            self._socket.send(kind + _NUMBER.pack(number), socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except ConnectionError:
            pass
        return True

    def reap(self) -> int:
        """Wait for the worker's end; return its exit status, or minus the number of its signal."""
        return self._process.wait()

    def let_go(self) -> None:
        """Let the worker end: it closes the connection, even if its disks hang."""
        # close() would not do: the guardian keeps a copy of the socket.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def drop(self) -> None:
        """Close all descriptors of a worker that was killed, even if the kernel still holds it."""
        self.let_go()
        os.close(self.log)
        os.close(self.process)

    def close(self) -> None:
        """End the worker, and close all descriptors. A worker that a disk blocks is abandoned."""
        self.let_go()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self.drop()


def _arguments(request: MountRequest, daemon_socket: int, counters: int) -> list[str]:
    options = request.options
    volume_options = request.volume_options().items()
    arguments = [
        *(f"--pack={pack}" for pack in request.packs),
        f"--daemon-socket={daemon_socket}",
        f"--counters={counters}",
        f"--threads={request.threads}",
        f"--transport={request.transport}",
        *(f"--option={name}={_option_text(value)}" for name, value in volume_options),
    ]
    arguments += ["--xattr"] if options.xattr else []
    arguments += ["--allow-root"] if options.allow_root else []
    return arguments


def _blamed(deaths: WorkerDeaths) -> Iterator[str]:
    yield from (f"--suspect={key}" for key in deaths.suspects)
    yield from (f"--quarantined={key}" for key in deaths.quarantined)


def _last_files(before: Worker) -> Iterator[str]:
    yield from (f"--last-file={file}" for file in before.last_files.values())


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that reads hostile packs."""
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
