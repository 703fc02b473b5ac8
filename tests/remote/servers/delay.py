"""A proxy that makes a loopback server distant: so many seconds each way; it counts bytes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from tests.remote.servers.program import Server, ask, own_place, serving, takes_orders


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
class Delay(Server):
    """After start_again() the counts are 0."""

    control_port: int

    def answers(self) -> bool:
        return takes_orders(self.control_port)

    def carried(self) -> Carried:
        return Carried(**ask(self.control_port))


@contextlib.contextmanager
def delay(target: int, latency_s: float) -> Iterator[Delay]:
    """Yield a proxy of the port `target`, which need not listen yet."""
    with own_place("delay", 2) as (place, (port, control_port)):
        numbers = map(str, (port, target, control_port, latency_s))
        command = [sys.executable, "-m", "tests.remote.servers.delay_program", *numbers]
        with serving(
            lambda program: Delay(program, port, control_port),
            *(command, place / "log"),
            patient=False,
        ) as server:
            yield server
