"""A mount whose processes are killed, killed again at once, stopped and replaced, at random.

No reader notices more than a pause, and no client that gives hints. `make chaos` takes ten minutes
for it. A run is repeated by FFRFS_SOAK_SEED.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mount.command import Mount, ffrfs, wait_until
from tests.soak.hints import hint_too_large, hinting
from tests.soak.load import check_bytes, load

DURATION_S = float(os.environ.get("FFRFS_CHAOS_S", "20"))
READERS = 8
HINTERS = 2
PACK_MB = 64

MakeMount = Callable[[Path], Mount]


class Chaos:
    """What is done to one mount."""

    def __init__(self, tree: Mount, seed: int) -> None:
        self._tree = tree
        self._random = random.Random(seed)
        self.acts: Counter[str] = Counter()

    def act(self) -> None:
        acts = (
            *(self._kill, self._kill_twice, self._stop, self._restart),
            *(self._kill_daemon, self._kill_daemon_and_worker, self._kill_guardian),
        )
        chosen = self._random.choice(acts)
        self.acts[chosen.__name__] += 1
        before = self._answered()
        chosen()
        wait_until(lambda: self._answered() > before, "it goes on")
        time.sleep(self._random.choice((0, 0.01, 0.1, 0.5)))

    def _answered(self) -> int:
        count: int = self._tree.statistics()["request_count"]
        return count

    def _signal(self, number: int) -> None:
        worker = self._tree.statistics()["worker_pid"]
        with contextlib.suppress(ProcessLookupError):  # it has just been killed
            if worker is not None:
                os.kill(worker, number)

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _kill_twice(self) -> None:
        """The second one dies before it has done anything, perhaps."""
        starts = self._tree.statistics()["worker"]["starts"]
        self._kill()
        wait_until(lambda: self._tree.statistics()["worker"]["starts"] > starts, "another serves")
        self._kill()

    def _stop(self) -> None:
        worker = self._tree.statistics()["worker_pid"]
        if worker is None:  # it has died, and is not replaced yet
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGSTOP)
            time.sleep(self._random.random() / 5)
            os.kill(worker, signal.SIGCONT)

    def _kill_daemon(self) -> None:
        self._tree.replace_daemon()

    def _kill_daemon_and_worker(self) -> None:
        self._tree.replace_daemon(with_worker=True)

    def _kill_guardian(self) -> None:
        """A daemon that dies before it has another one takes the mount along."""
        self._tree.find_daemon()
        before = self._tree.guardian
        assert before is not None
        os.kill(before.pid, signal.SIGKILL)

        def is_guarded() -> bool:
            self._tree.find_daemon()
            return self._tree.guardian != before

        wait_until(is_guarded, "another one guards")

    def _restart(self) -> None:
        assert ffrfs("restart", self._tree.path).status == 0


@pytest.mark.promise("S19")
@pytest.mark.timeout(DURATION_S + 240)
@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("engine", ["native"], indirect=True)
def test_chaos(new_mount: MakeMount, pack_checkable: Callable[[int], Path]) -> None:
    seed = int(os.environ.get("FFRFS_SOAK_SEED") or random.randrange(1 << 32))
    print(f"FFRFS_SOAK_SEED={seed}")
    tree = new_mount(pack_checkable(PACK_MB))
    assert tree.mount("--cache-mb", "32").status == 0
    tree.expect_log("the worker (was killed by SIGKILL|has ended)|the guardian has died|has died$")
    hint_too_large(tree)
    chaos = Chaos(tree, seed)
    with (
        hinting(tree, HINTERS, DURATION_S) as hinters,
        load(tree, READERS, DURATION_S, drop=0.8) as readers,
    ):
        ends_s = time.monotonic() + DURATION_S - 2
        while time.monotonic() < ends_s:
            chaos.act()
        results = readers.results(120)
        assert all(hinter.answer(60) > 0 for hinter in hinters)
    figures = tree.statistics()["worker"]
    print(f"{dict(chaos.acts)}; {check_bytes(results)}; {figures}")
    assert {result["errno"] for result in results} == {0}
    assert figures["quarantined"] == figures["failed_restarts"] == 0
    assert figures["deaths"] > 0
    assert ffrfs("umount", tree.path).status == 0
    tree.wait_for_daemon()
    assert tree.processes() == []
