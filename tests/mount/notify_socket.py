"""A service manager of the test's own: the socket that NOTIFY_SOCKET names, and a service.

The protocol is sd_notify(3)'s; who sent a message is asked of the kernel, as systemd does. A
thread takes messages, also while the test does something else: the socket holds few of them.
"""

from __future__ import annotations

import os
import queue
import secrets
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

from tests.mount.command import TIMEOUT_S, Mount, kill_group, start_ffrfs

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_SO_TIMESTAMPNS = 35  # as x86-64 and arm64 have it
_TIME = struct.Struct("qq")  # s, ns
# Those of a manager above the tests themselves.
_OTHERS = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "SYSTEMD_EXEC_PID", "JOURNAL_STREAM"}


class ServiceManager:
    """Takes messages; `place`: where its socket lies, None: nowhere, its name is abstract."""

    def __init__(self, place: Path | None = None) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        if place is None:
            self.address = f"@ffrfs-test-{secrets.token_hex(8)}"
            self._socket.bind("\0" + self.address[1:])
        else:
            self.address = str(place)
            self._socket.bind(self.address)
        # In the order in which they came: the lines, who sent them, when.
        self.messages: list[tuple[dict[str, str], int, float]] = []
        self._taken: queue.SimpleQueue[tuple[dict[str, str], int, float]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._take)
        self._thread.start()

    def environment(self, **more: str) -> dict[str, str]:
        """What a service is started with."""
        inherited = {name: value for name, value in os.environ.items() if name not in _OTHERS}
        return inherited | {"NOTIFY_SOCKET": self.address} | more

    def wait_for(self, name: str, timeout_s: float = TIMEOUT_S) -> dict[str, str]:
        """The next message that has that name."""
        deadline_s = time.monotonic() + timeout_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            message = self._receive(left_s)
            if message is not None and name in message:
                return message
        raise AssertionError(f"no {name} within {timeout_s:g} s: {self.messages}")

    def heard_within(self, timeout_s: float) -> list[str]:
        """The names in all messages of that time, and in those that have come before."""
        deadline_s = time.monotonic() + timeout_s
        names: list[str] = []
        while (message := self._receive(max(deadline_s - time.monotonic(), 0))) is not None:
            names += message
        return names

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RD)
        self._thread.join()
        self._socket.close()

    def _receive(self, timeout_s: float) -> dict[str, str] | None:
        try:
            self.messages.append(self._taken.get(timeout=timeout_s))
        except queue.Empty:
            return None
        return self.messages[-1][0]

    def _take(self) -> None:
        space = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(_TIME.size)
        while True:
            data, ancillary, _, _ = self._socket.recvmsg(8192, space)
            if not data:  # it was shut down
                return
            found = {kind: value for _, kind, value in ancillary}
            pid, _, _ = _CREDENTIALS.unpack(found[socket.SCM_CREDENTIALS])
            seconds, nanoseconds = _TIME.unpack(found[_SO_TIMESTAMPNS])
            lines = data.decode().split("\n")
            message = dict(line.split("=", 1) for line in lines)
            assert len(message) == len(lines)
            self._taken.put((message, pid, seconds + nanoseconds / 1e9))


class Service:
    """`ffrfs mount -f` of a tree, as a service manager runs it."""

    def __init__(
        self, tree: Mount, manager: ServiceManager, *arguments: str, **environment: str
    ) -> None:
        self.tree = tree
        self.manager = manager
        self.process: subprocess.Popen[str] = start_ffrfs(
            *("mount", "-f", *tree.engine_words, "--log-file", tree.log_file),
            *(*arguments, "--", *tree.packs, tree.path),
            env=manager.environment(**environment),
        )

    def wait_until_ready(self) -> dict[str, str]:
        message = self.manager.wait_for("READY")
        self.tree.find_daemon()
        return message

    def end(self, timeout_s: float = TIMEOUT_S) -> int:
        """Its exit status, when it has ended."""
        return self.process.wait(timeout_s)

    def close(self) -> None:
        """Leave no process; the mount is its Mount's to take away."""
        if self.process.poll() is None:
            kill_group(self.process)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
