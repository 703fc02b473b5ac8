"""A test's own service manager: the socket that NOTIFY_SOCKET names, and a service.

The protocol is sd_notify(3)'s. As for systemd, the kernel says which process sent a message. A
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
_SO_TIMESTAMPNS = 35  # on x86-64 and arm64
_TIME = struct.Struct("qq")  # s, ns
# Set by a service manager that runs the tests themselves.
_OTHERS = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "SYSTEMD_EXEC_PID", "JOURNAL_STREAM"}


class ServiceManager:
    """Takes messages. `place` is the path of its socket, or None for an abstract name."""

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
        # In order of arrival: the lines, the sender's process number, the time.
        self.messages: list[tuple[dict[str, str], int, float]] = []
        self._taken: queue.SimpleQueue[tuple[dict[str, str], int, float]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._take)
        self._thread.start()

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment to start a service with."""
        inherited = {name: value for name, value in os.environ.items() if name not in _OTHERS}
        return inherited | {"NOTIFY_SOCKET": self.address} | more

    def wait_for(self, name: str, timeout_s: float = TIMEOUT_S) -> dict[str, str]:
        """Return the next message that has this name."""
        deadline_s = time.monotonic() + timeout_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            message = self._receive(left_s)
            if message is not None and name in message:
                return message
        raise AssertionError(f"no {name} within {timeout_s:g} s: {self.messages}")

    def heard_within(self, timeout_s: float) -> list[str]:
        """Return the names in all messages within this time, and in those not yet taken before."""
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
        """Wait until it has ended, and return its exit status."""
        return self.process.wait(timeout_s)

    def close(self) -> None:
        """Leave no process behind; its Mount unmounts it."""
        if self.process.poll() is None:
            kill_group(self.process)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
