"""Acts on a mount in chaos: its processes die, stop and are replaced; its storage fails.

Each act waits until the mount goes on. Not here: the readers (chaos_readers.py).
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ffrfs.mount.kernel.process import Process
from tests.mount.command import TIMEOUT_S, Mount, ffrfs, start_ffrfs, wait_until
from tests.mount.disk import Disk
from tests.page_cache import drop_pages
from tests.remote.servers.program import Program

_PAUSES_S = (0, 0.01, 0.1, 0.5)
_TROUBLE_S = (0.1, 0.5, 1.5)

Span = tuple[float, float]


@dataclass
class Done:
    """The acts and their times; `pauses_s`: from a daemon's death to the next one's answer."""

    acts: Counter[str] = field(default_factory=Counter)
    spans: list[Span] = field(default_factory=list)  # of each act, until the mount goes on
    troubles: list[Span] = field(default_factory=list)  # of the acts that made storage fail
    pauses_s: list[float] = field(default_factory=list)


class Chaos:
    """Acts on one mount, and on its disk, server and cache folder if they are given."""

    def __init__(
        self,
        tree: Mount,
        order: random.Random,
        *,
        pack: Path,
        disk: Disk | None = None,
        server: Program | None = None,
        full: Path | None = None,
    ) -> None:
        """`full`: a folder on a small disk, which an act fills."""
        self._tree = tree
        self._random = order
        self._pack = pack
        self._disk = disk
        self._server = server
        self._full = full
        self.done = Done()
        self._acts: list[Callable[[], None]] = [
            *(self._kill_worker, self._kill_twice, self._kill_daemon, self._kill_guardian),
            *(self._kill_several, self._kill_several, self._stop, self._restart, self._forget),
            self._kill_in_restart,
        ]
        if disk is not None:
            self._acts += [self._fail, self._fail_and_kill, self._stall, self._slow] * 2
        if server is None:
            self._acts += [self._kill_in_warming]  # the cache holds less than the pack
        else:
            self._acts += [self._kill_fetcher, self._kill_server, self._fill_disk] * 2

    def act(self) -> None:
        # The first act kills, so that each run has deaths.
        chosen = self._random.choice(self._acts) if self.done.spans else self._kill_several
        self.done.acts[chosen.__name__.removeprefix("_")] += 1
        before = self._answered()
        began_s = time.monotonic()
        chosen()
        wait_until(lambda: self._answers_since(before), f"it goes on after {chosen.__name__}")
        self.done.spans.append((began_s, time.monotonic()))
        if chosen in (self._fail, self._fail_and_kill):
            self.done.troubles.append(self.done.spans[-1])
        time.sleep(self._random.choice(_PAUSES_S))

    def _answered(self) -> int:
        count: int = self._tree.statistics()["request_count"]
        return count

    def _answers_since(self, before: int) -> bool:
        found = self._tree.statistics()
        return found["refusal"] is None and found["request_count"] > before

    def kill_one(self) -> None:
        self._kill_at_once(self._random.choice(("worker", "daemon", "guardian")))

    def _kill_at_once(self, *names: str) -> tuple[dict[str, Any], Process]:
        """Kill these processes within a millisecond; return statistics and guardian from before."""
        found = self._tree.statistics()
        self._tree.find_daemon()
        guardian = self._tree.guardian
        assert guardian is not None
        pids = {"guardian": guardian.pid} | {
            name: found[f"{name}_pid"] for name in ("worker", "daemon", "fetcher")
        }
        for name in names:
            with contextlib.suppress(ProcessLookupError):  # the process has just ended
                if pids[name] is not None:  # else it is not replaced yet
                    os.kill(pids[name], signal.SIGKILL)
        return found, guardian

    def _kill(self, *names: str) -> None:
        """Kill these processes at once; wait until others are in their place.

        Never kill daemon and guardian at once: each starts the other, so that would end the mount.
        """
        found, guardian = self._kill_at_once(*names)
        began_s = time.monotonic()
        if "daemon" in names:
            starts = found["daemon_starts"]
            wait_until(lambda: self._tree.statistics()["daemon_starts"] > starts, "a daemon serves")
            self.done.pauses_s.append(time.monotonic() - began_s)
        if "guardian" in names:
            wait_until(lambda: self._guardian() not in (None, guardian), "another one guards")
            self._tree.statistics()  # by then the guardian has all it keeps

    def _guardian(self) -> object:
        self._tree.find_daemon()
        return self._tree.guardian

    def _kill_worker(self) -> None:
        self._kill("worker")

    def _kill_daemon(self) -> None:
        self._kill("daemon")

    def _kill_guardian(self) -> None:
        self._kill("guardian")

    def _kill_fetcher(self) -> None:
        self._kill("fetcher")

    def _kill_several(self) -> None:
        others = [self._random.choice(("daemon", "guardian"))]
        others += ["fetcher"] * (self._server is not None)
        count = self._random.randrange(2, len(others) + 2)
        names = self._random.sample(["worker", *others], count)
        if not self.done.spans and "worker" not in names:  # each run has a worker's death
            names[0] = "worker"
        self.done.acts["+".join(sorted(names))] += 1
        self._kill(*names)

    def _kill_twice(self) -> None:
        """Kill two workers in turn; the second one may not have done anything yet."""
        starts = self._tree.statistics()["worker"]["starts"]
        self._kill("worker")
        wait_until(lambda: self._tree.statistics()["worker"]["starts"] > starts, "another serves")
        self._kill("worker")

    def _kill_in_warming(self) -> None:
        """Kill while files are pushed; the command goes on with the next worker or daemon."""
        before = self._tree.statistics()["warm"]["begun"]
        with start_ffrfs("warm", self._tree.path) as warming:
            wait_until(
                lambda: (
                    self._tree.statistics()["warm"]["begun"] > before or warming.poll() is not None
                ),
                "files are pushed",
            )
            self._kill(self._random.choice(("worker", "daemon")))
            _, errors = warming.communicate(timeout=TIMEOUT_S)
        assert warming.returncode == 0, errors

    def _stop(self) -> None:
        found = self._tree.statistics()
        kinds = ("worker", "worker", "daemon", "fetcher")
        pid = found[f"{self._random.choice(kinds)}_pid"]
        if pid is None:  # it has died and is not replaced yet, or there is no fetcher
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self._random.random() / 5)
            os.kill(pid, signal.SIGCONT)

    def _restart(self) -> None:
        done = ffrfs("restart", self._tree.path)
        assert done.status == 0, done.err

    def _kill_in_restart(self) -> None:
        """Kill at any moment of a restart; the command waits for the next process, and succeeds."""
        with start_ffrfs("restart", self._tree.path) as restarting:
            time.sleep(self._random.random())
            self._kill(self._random.choice(("worker", "daemon", "guardian")))
            _, errors = restarting.communicate(timeout=TIMEOUT_S)
        assert restarting.returncode == 0, errors

    def _forget(self) -> None:
        drop_pages(self._pack)

    @contextlib.contextmanager
    def _trouble(self) -> Iterator[Disk]:
        """Yield the disk for some trouble; then let some time pass, and end the trouble."""
        assert self._disk is not None
        yield self._disk
        time.sleep(self._random.choice(_TROUBLE_S))
        self._disk.go()

    def _fail(self) -> None:
        with self._trouble() as disk:
            disk.fail_all()

    def _fail_and_kill(self) -> None:
        """Kill while storage fails, so that no worker can open the packs."""
        with self._trouble() as disk:
            disk.fail_all()
            self._kill(self._random.choice(("worker", "daemon")))

    def _stall(self) -> None:
        with self._trouble() as disk:
            disk.stall_all()
            if self._random.random() < 0.5:
                self._kill("worker")

    def _slow(self) -> None:
        with self._trouble() as disk:
            disk.slow_all()

    def _kill_server(self) -> None:
        assert self._server is not None
        self._server.kill()
        self._server.start()

    def _fill_disk(self) -> None:
        assert self._full is not None
        filler = self._full / "filler"
        with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(1 << 20)):
                pass
        time.sleep(self._random.choice(_TROUBLE_S))
        filler.unlink()
