"""How often a mount's daemon and worker wake while nobody reads the mount."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from ffrfs.mount.config.config import make_config
from ffrfs.mount.config.request import make_request
from ffrfs.mount.daemon import memory_limit
from ffrfs.mount.daemon.memory_limit import MemoryLimit
from ffrfs.mount.daemon.notify import Notifier
from ffrfs.mount.daemon.server import Server
from ffrfs.mount.daemon.signals import HeldSignals
from ffrfs.mount.engines.counter_page import Counters
from ffrfs.mount.engines.native_engine import NativeEngine
from ffrfs.mount.engines.tick import TICK_S, tick
from ffrfs.mount.engines.worker_deaths import WorkerDeaths
from ffrfs.mount.engines.worker_life import WorkerLife

MIB = 1 << 20
MINUTE_S = 60.0


class Wakeups(trio.abc.Instrument):
    """Notes the times at which a loop runs any task."""

    def __init__(self) -> None:
        self.times_s: set[float] = set()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.times_s.add(trio.current_time())


class IdleEngine(NativeEngine):
    """An engine whose worker is this process: it gets no requests and does not end."""

    def __init__(self) -> None:
        self.deaths = WorkerDeaths()
        self.refusal = None
        self.may_use_rings = False
        self._fetching = None

    @property
    def worker_pid(self) -> int:
        return os.getpid()

    def counters(self) -> Counters:
        return {"reads": [7], "request.read": [7]}

    def limit_cache(self, size_bytes: int) -> None:
        pass

    def limit_pushed(self, size_bytes: int) -> None:
        pass

    async def serve(self, connection: int, abort: Callable[[], None]) -> None:
        process = os.pidfd_open(self.worker_pid)
        try:
            with WorkerLife(process, self.worker_pid, self.counters) as life:
                await life.wait_for_end()
        finally:
            os.close(process)


def test_idle_daemon_does_all_its_checks_in_one_wakeup() -> None:
    asked = make_config(packs=["/x.ffr"], mountpoint="/m", settings={})
    engine = IdleEngine()
    wakeups = Wakeups()

    async def serve(server: Server) -> None:
        with trio.move_on_after(MINUTE_S):
            await server._run()

    connection, kernel = socket.socketpair()
    with connection, kernel, socket.socket(socket.AF_UNIX) as control:
        control.bind("")  # the kernel chooses a name
        control.listen()
        mount: Any = SimpleNamespace(
            control=control,
            connection=connection.fileno(),
            abort=None,
            entry=SimpleNamespace(device="0:1"),
            is_mounted=lambda: True,
            move_log=None,
            record=lambda: None,
            state=SimpleNamespace(age_s=0.0),
        )
        others: dict[str, Any] = {
            "announcement": SimpleNamespace(is_made=True, is_heard=True),
            "notifier": Notifier(None),
            "keeper": SimpleNamespace(watch=trio.sleep_forever, is_keeping=False),
            "log_there": None,
            "held_signals": HeldSignals(),
        }
        request = make_request(asked)
        memory = MemoryLimit(request, engine, base_bytes=32 * MIB)
        server = Server(request, engine, mount, memory=memory, **others)
        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(serve, server, clock=clock, instruments=[wakeups])
    # It also wakes at the beginning, after its first look at the worker, and at the end.
    assert MINUTE_S / TICK_S <= len(wakeups.times_s) <= MINUTE_S / TICK_S + 3


@pytest.mark.parametrize(
    ("now_s", "time_s", "at_s"),
    [(0, 2.5, 2.5), (2.54, 2.5, 5), (2.54, 5, 7.5), (2.7, 2.5, 7.5), (1, 1.25, 2.5), (2, 1.25, 5)],
)
def test_periodic_checks_share_the_same_ticks(now_s: float, time_s: float, at_s: float) -> None:
    async def main() -> float:
        return tick(time_s)

    assert TICK_S == 2.5
    clock = trio.testing.MockClock()
    clock.jump(now_s)
    assert trio.run(main, clock=clock) == at_s


def test_small_changes_send_the_worker_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that is available changes all the time, and each message wakes the worker."""
    available = [1600, 1601, 1500, 1501, 1499, 1598, 1610, 0, 0, 1]
    told: list[int] = []
    engine: Any = SimpleNamespace(
        **dict.fromkeys(("deaths", "worker_pid", "fetcher_pid", "may_use_rings")),
        limit_cache=lambda size_bytes: None,
        limit_pushed=told.append,
    )
    asked = make_config(packs=["/x.ffr"], mountpoint="/m", settings={})
    limit = MemoryLimit(make_request(asked), engine, base_bytes=32 * MIB)

    async def run() -> None:
        with trio.move_on_after(len(available) * TICK_S):
            await limit.run()

    looks = iter([size * 2 * MIB for size in available])
    monkeypatch.setattr(limit, "_group_bytes", None)
    monkeypatch.setattr(limit, "_next_bytes", lambda: limit.figures()["cache_limit_bytes"])
    monkeypatch.setattr(memory_limit, "available_bytes", lambda: next(looks))
    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert told == [size * MIB for size in (1600, 1499, 1598, 0, 1)]
