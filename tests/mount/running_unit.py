"""The service ffrfs@.service where there is no systemd: its own commands, and its socket.

As systemd does, each start runs ExecStart, and is done at READY=1. What
systemd would do beside that, its limits and filters, is not done here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.checkout import CHECKOUT
from tests.unit import Unit

_TEMPLATE = CHECKOUT / "systemd" / "ffrfs@.service"
_MESSAGE_SIZE_MAX = 4096
COMMAND_TIMEOUT_S = END_TIMEOUT_S = 60.0


class RunningUnit:
    """One instance of the template; it logs into a file, its journal."""

    def __init__(self, environment: dict[str, str], socket_path: Path, journal: Path) -> None:
        """`environment`: what its EnvironmentFile would say: PACKS, MOUNTPOINT, OPTIONS."""
        self._unit = Unit.load(_TEMPLATE, "test", environment)
        self._manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._manager.bind(str(socket_path))
        self._environment = os.environ | environment | {"NOTIFY_SOCKET": str(socket_path)}
        self._journal = journal
        self._main: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """To READY."""
        (command,) = self._unit.commands("ExecStart")
        self._main = self._run(command)
        self._wait_for_ready()

    def kill(self) -> None:
        """As the OOM killer does."""
        assert self._main is not None
        self._main.send_signal(signal.SIGKILL)
        self._main.wait(END_TIMEOUT_S)

    def stop(self) -> int:
        """By ExecStop; the exit status of the service."""
        assert self._main is not None
        for command in self._unit.commands("ExecStop"):
            if (status := self._run(command).wait(COMMAND_TIMEOUT_S)) != 0:
                raise RuntimeError(f"{command} has ended with {status}")
        return self._main.wait(END_TIMEOUT_S)

    def close(self) -> None:
        self._manager.close()

    def _run(self, command: list[str]) -> subprocess.Popen[bytes]:
        with open(self._journal, "ab") as journal:
            return subprocess.Popen(
                command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=journal,
                stderr=journal,
                start_new_session=True,
            )

    def _wait_for_ready(self) -> None:
        assert self._main is not None
        deadline_s = time.monotonic() + COMMAND_TIMEOUT_S
        self._manager.settimeout(1)
        while time.monotonic() < deadline_s and self._main.poll() is None:
            with contextlib.suppress(TimeoutError):
                message = self._manager.recv(_MESSAGE_SIZE_MAX)
                if b"READY=1" in message.split(b"\n"):
                    return
        raise RuntimeError(f"not ready: {self._journal.read_text()}")
