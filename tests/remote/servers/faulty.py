"""A server that can be told to do wrong: HTTP over a folder, in a process of its own.

It can also be the endpoint of S3, where a bucket is a folder: it takes every signature
and answers HEAD and GET of objects, but no listing.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.remote.servers.fault import Fault, Kind
from tests.remote.servers.program import Server, ask, own_place, serving, takes_orders


class Seen(NamedTuple):
    """A request that has been answered."""

    method: str
    path: str
    range: str  # the header, or empty
    status: int  # 0: nothing was sent, or no HTTP
    body_size: int


@dataclass(frozen=True)
class Counts:
    requests: list[Seen]
    bytes: dict[str, int]  # by path
    most_under_way: int

    def gets(self, path: str) -> list[Seen]:
        return [seen for seen in self.requests if seen.path == path and seen.method == "GET"]


@dataclass(frozen=True)
class Faulty(Server):
    """Speaks with the running server. Its methods return when the server has obeyed.

    After start_again() there are no faults, no latency and no counts.
    """

    control_port: int

    def answers(self) -> bool:
        return takes_orders(self.control_port, do="forget")

    def do(self, kind: Kind, **details: Any) -> None:
        """Do this wrong from now on (see Fault); several faults may be in force."""
        self._order(do="fault", fault=Fault(kind, **details).to_json())

    def mend(self) -> None:
        """Remove all faults; connections that stall go on stalling."""
        self._order(do="mend")

    def shape(self, *, latency_s: float = 0.0, bytes_per_s: float | None = None) -> None:
        """Set the latency each way, and the bandwidth that all connections share."""
        self._order(do="shape", latency_s=latency_s, bytes_per_s=bytes_per_s)

    def counts(self) -> Counts:
        found = self._order(do="count")
        requests = [Seen(*each) for each in found["requests"]]
        return Counts(requests, found["bytes"], found["most_under_way"])

    def forget_counts(self) -> None:
        self._order(do="forget")

    def _order(self, **order: Any) -> Any:
        return ask(self.control_port, **order)


@contextlib.contextmanager
def faulty(root: Path) -> Iterator[Faulty]:
    """Serve the files below `root`, well at first; a file `a/b` is at `url + "/a/b"`."""
    module = "tests.remote.servers.faulty_program"
    with own_place("faulty", 2) as (place, (port, control_port)):
        command = [sys.executable, "-m", module, str(root), str(port), str(control_port)]
        with serving(
            lambda program: Faulty(program, port, control_port), command, place / "log"
        ) as server:
            yield server
