"""A proxy that makes a loopback server far away: so many seconds each way; it counts bytes."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.remote.servers.program import Program, free_ports, running


@dataclass(frozen=True)
class Carried:
    connections: int
    bytes_up: int
    bytes_down: int  # with headers

    def __sub__(self, earlier: Carried) -> Carried:
        return Carried(
            self.connections - earlier.connections,
            self.bytes_up - earlier.bytes_up,
            self.bytes_down - earlier.bytes_down,
        )


@dataclass(frozen=True)
class Delay:
    program: Program
    port: int
    control_port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start_again(self) -> None:
        """After `program.kill()`: the counts begin anew."""
        self.program.start()
        self.program.wait_until(lambda: _tells(self.control_port))

    def carried(self) -> Carried:
        return _carried(self.control_port)


def _carried(control_port: int) -> Carried:
    with (
        socket.create_connection(("127.0.0.1", control_port), 30) as control,
        control.makefile("rb") as line,
    ):
        return Carried(**json.loads(line.readline()))


def _tells(control_port: int) -> bool:
    with contextlib.suppress(OSError):
        _carried(control_port)
        return True
    return False


@contextlib.contextmanager
def delay(target: int, latency_s: float) -> Iterator[Delay]:
    """A port that leads to the port `target`, which need not listen yet."""
    with (
        tempfile.TemporaryDirectory(prefix="ffrfs-delay-") as place,
        free_ports(2) as (port, control_port),
    ):
        numbers = map(str, (port, target, control_port, latency_s))
        command = [sys.executable, "-m", "tests.remote.servers.delay_program", *numbers]
        log = Path(place, "log")
        with running(command, log, lambda: _tells(control_port), patient=False) as program:
            yield Delay(program, port, control_port)
