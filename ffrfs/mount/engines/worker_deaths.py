"""Decides after the death of a worker how to go on, and which request is to blame.

A worker leaves the requests that it was working on in the counter page (native/fuse/journal.h).
If it crashed, its replacement gets them as suspects and works on one at a time
(native/worker/trial.h); if that one crashes as well, the request on trial is quarantined: it
fails from then on, and the others go on. A worker that was killed from outside gives no evidence.

Concurrency: the daemon's loop alone.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field, fields
from typing import Any

from ffrfs.mount.engines.counter_page import Counters, first_value
from ffrfs.mount.kernel.pack_versions import MOUNT_AGAIN

IN_ROW_MAX = 5  # deaths without one answered request; then the mount fails all requests
# A worker that lived so long worked, even if nobody sent it a request.
_LIFE_ENOUGH_S = 10.0
_PAUSE_S = 0.1  # before the second start in a row; doubled for each further one
_QUARANTINED_MAX = 1000
# How far from the number of the last request that a worker has noted the number of one may be that
# it has taken and not noted. The same values are in native/fuse/journal.h.
_BEHIND, _AHEAD = 1 << 14, 1 << 12
UNSEEN = 256  # in place of the exit status of a worker that was not this daemon's child
_CRASHES = {
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGABRT,
    signal.SIGILL,
    signal.SIGFPE,
    signal.SIGSYS,
}


@dataclass
class WorkerDeaths:
    """The deaths since the mount was made, or since forgive()."""

    count: int = 0
    causes: dict[str, int] = field(default_factory=dict)  # "SIGKILL", "status 1": how often
    longest_pause_s: float = 0.0  # without a worker
    starts: int = 0  # of replacements
    restarts: int = 0  # that were asked for
    failed_restarts: int = 0
    last_failure: str | None = None  # why the last start failed
    in_row: int = 0
    suspects: list[int] = field(default_factory=list)  # keys of requests, as in native/fuse
    quarantined: list[int] = field(default_factory=list)
    _has_begun: bool = field(default=True, init=False)  # False: the last failure was a failed start
    _answered: int = field(default=0, init=False)
    _began_s: float = field(default_factory=time.monotonic, init=False)

    def kept(self) -> dict[str, Any]:
        """Return the arguments for an equal WorkerDeaths in the next daemon."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.init}

    def note_start(self, pause_s: float) -> None:
        """Note that a worker begins to serve, after a time without one."""
        self.starts += 1
        self.longest_pause_s = max(self.longest_pause_s, pause_s)
        self._began_s = time.monotonic()

    def note(self, status: int, counters: Counters, cause: str | None = None) -> None:
        """Note that a worker has ended with an exit status, or minus a signal's number.

        `cause`: why the daemon ended it, if it did.
        """
        self._has_begun = True
        cause = cause or cause_of(status)
        self.count += 1
        self.causes[cause] = self.causes.get(cause, 0) + 1
        now = answered(counters)
        if now != self._answered or time.monotonic() - self._began_s > _LIFE_ENOUGH_S:
            self.in_row = 0
        self._answered = now
        self.in_row += 1
        if -status in _CRASHES:
            self._blame(counters)

    def note_failed_start(self, reason: str) -> None:
        self.last_failure = reason
        self._has_begun = False
        self.in_row += 1
        self._began_s = time.monotonic()

    @property
    def pause_s(self) -> float:
        """How long to wait before the next start."""
        return 0.0 if self.in_row <= 1 else _PAUSE_S * 2 ** (self.in_row - 2)

    @property
    def is_hopeless(self) -> bool:
        return self.in_row >= IN_ROW_MAX

    @property
    def refusal(self) -> str:
        """Why no further worker is tried."""
        ended = f"{IN_ROW_MAX} workers in a row ended without an answer"
        return f"{ended if self._has_begun else 'no worker can begin'}: {self.last_failure}"

    @property
    def remedy(self) -> str:
        """The remedy, for the log, unless the failure names one itself."""
        return "" if MOUNT_AGAIN in (self.last_failure or "") else " until `ffrfs restart`"

    def figures(self, counters: Counters) -> dict[str, object]:
        """Return the fields of `ffrfs stats`."""
        return {
            "deaths": self.count,
            "starts": self.starts,
            "causes": self.causes,
            "restarts": self.restarts,
            "failed_restarts": self.failed_restarts,
            "last_failure": self.last_failure,
            "resent": first_value(counters, "requests_resent"),
            "quarantined": len(self.quarantined),
            "longest_pause_s": round(self.longest_pause_s, 3),
        }

    def forgive(self) -> None:
        """Try everything again; the figures stay."""
        self.in_row = 0
        self.suspects = []
        self.quarantined = []

    def _blame(self, counters: Counters) -> None:
        on_trial = first_value(counters, "on_trial")
        if on_trial and len(self.quarantined) < _QUARANTINED_MAX:
            self.quarantined.append(on_trial)
        uniques, keys = (counters.get("in_flight", [])[start::2] for start in (0, 1))
        in_flight = {key for unique, key in zip(uniques, keys, strict=False) if unique and key}
        self.suspects = sorted(in_flight.difference(self.quarantined))


def cause_of(status: int) -> str:
    """Return the name of an exit status, as subprocess gives it."""
    if status == UNSEEN:
        return "unknown"
    if status >= 0:
        return f"status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:  # most of the real-time signals have no name
        return f"signal {-status}"


def outcome_of(status: int) -> str:
    """Return what happened, for the log: "was killed by SIGABRT"."""
    if status == UNSEEN:
        return "has ended"
    return f"ended with {cause_of(status)}" if status >= 0 else f"was killed by {cause_of(status)}"


def answered(counters: Counters) -> int:
    """Return how many requests workers have answered."""
    return sum(sum(row) for name, row in counters.items() if name.startswith("request."))


def in_flight(counters: Counters) -> list[int]:
    """Return the numbers by which the kernel knows the requests that workers have noted."""
    return [unique for unique in counters.get("in_flight", [])[::2] if unique]


def unanswered(counters: Counters) -> list[int]:
    """Return the kernel's numbers of the requests in flight, and of others that may be.

    A worker that is killed takes a few more requests from the kernel than it has noted.
    """
    last = first_value(counters, "last_unique")
    return [*in_flight(counters), *range(max(1, last - _BEHIND), min(last + _AHEAD, 1 << 64))]
