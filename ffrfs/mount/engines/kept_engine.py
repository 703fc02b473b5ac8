"""The engine that a daemon leaves to the next daemon of the mount: its worker, which serves on.

Concurrency: no state but the descriptors. Not here: who keeps it (ffrfs/mount/daemon/keeper.py).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from dataclasses import dataclass, field
from typing import Any

from ffrfs.mount.config.settings import Transport
from ffrfs.mount.engines.worker_deaths import UNSEEN


@dataclass(frozen=True, kw_only=True)
class KeptEngine:
    """An engine without its daemon."""

    # Names: page (of counters), worker (its socket), log (its pipe), process (a pidfd); and, if
    # there is a fetcher, fetched (its page of counters), which earlier versions do not keep.
    descriptors: dict[str, int]
    transport: Transport  # of its workers: "dev" or "uring"
    identities: str  # of the packs, in hexadecimal digits (Worker.identities)
    deaths: dict[str, Any]  # the fields of WorkerDeaths
    last_files: list[str] = field(default_factory=list)  # Worker.last_files
    failures: list[dict[str, Any]] = field(default_factory=list)  # ReadFailures.kept()


class KeptProcess:
    """A worker that another daemon has started; as subprocess.Popen, as far as Worker uses it."""

    def __init__(self, process: int) -> None:
        """`process`: its pidfd, which stays the caller's."""
        self._process = process
        with open(f"/proc/self/fdinfo/{process}", "rb") as file:
            fields = dict(line.split(b":", 1) for line in file if b":" in line)
        self.pid = int(fields[b"Pid"])  # -1: it has ended

    def kill(self) -> None:
        if self.pid > 0:
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                signal.pidfd_send_signal(self._process, signal.SIGKILL)

    def wait(self, timeout_s: float | None = None) -> int:
        """Return its exit status, as Popen does; UNSEEN if it was not our child."""
        poll = select.poll()
        poll.register(self._process, select.POLLIN)
        if not poll.poll(None if timeout_s is None else timeout_s * 1000):
            assert timeout_s is not None
            raise subprocess.TimeoutExpired("ffrfs-worker", timeout_s)
        try:
            ended = os.waitid(os.P_PIDFD, self._process, os.WEXITED)
        except ChildProcessError:
            return UNSEEN
        assert ended is not None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
