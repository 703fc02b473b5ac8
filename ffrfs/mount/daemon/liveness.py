"""Replaces a worker that answers nothing: a stopped one, or one whose threads wait for each other.

If requests wait, or the worker is stopped, and no request is answered for a while, a probe asks the
mount for its size (statfs), which no worker needs a disk for. A worker that does not even answer
this is killed, and another one takes over as after any death. A mount that is detached or covered
cannot be asked: its worker is killed if it takes no request for as long.

A worker with a thread in an uninterruptible sleep is left alone: a disk blocks it, and would block
the next one as well. So is one that a debugger has stopped. Requests in rings of io_uring cannot be
seen from here.

Concurrency: one task of the daemon's loop.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select

import trio

from ffrfs.errors import describe
from ffrfs.mount.daemon import tree_probe
from ffrfs.mount.daemon.probe import Probe
from ffrfs.mount.engines.engine import LastingEngine
from ffrfs.mount.engines.tick import tick
from ffrfs.mount.engines.worker_deaths import answered, in_flight

_INTERVAL_S = 5.0  # without an answer, before the probe asks
_ANSWER_LIMIT_S = 10.0  # a machine that swaps takes seconds
_STOPPED = "T"
_HELD = {"D", "t"}  # waits for a device; is traced by a debugger

log = logging.getLogger(__name__)


class Liveness:
    """Watches the worker of one mount."""

    def __init__(self, engine: LastingEngine, connection: int, probe: Probe) -> None:
        self._engine = engine
        self._probe = probe
        # Readable while the kernel has requests that no thread has taken yet.
        self._waiting = select.poll()
        self._waiting.register(connection, select.POLLIN)

    async def run(self) -> None:
        """Watch until cancelled."""
        before = self._progress()
        while True:
            await trio.sleep_until(tick(_INTERVAL_S))
            now = self._progress()
            is_silent = now == before and self._may_hang(now[0])
            if is_silent and await self._hangs(now):
                log.error("the worker answers nothing; it is killed")
                self._engine.kill_worker("no answer")
            before = now

    def _progress(self) -> tuple[int | None, int]:
        """Return values of which one changes while a worker answers."""
        return self._engine.worker_pid, answered(self._engine.counters())

    def _may_hang(self, pid: int | None) -> bool:
        if pid is None:  # it has died, and another one begins
            return False
        # A thread that is stopped right after it has taken a request has not noted it yet.
        has_requests = self._waiting.poll(0) or in_flight(self._engine.counters())
        return bool(has_requests) or _is_stopped(pid)

    def _takes_nothing(self, pid: int | None) -> bool:
        """Return whether requests wait in the kernel, or the worker is stopped.

        A worker that waits for a disk or a server, however long, takes the next request at once.
        """
        return bool(self._waiting.poll(0)) or (pid is not None and _is_stopped(pid))

    async def _hangs(self, before: tuple[int | None, int]) -> bool:
        answer = b""
        try:
            with trio.move_on_after(_ANSWER_LIMIT_S) as limit:
                answer = await self._probe.ask(tree_probe.SIZE)
                if answer == tree_probe.ELSEWHERE and self._takes_nothing(before[0]):
                    await trio.sleep_forever()  # the worker did not give this answer
        except OSError as error:
            log.warning("no probe asks whether the worker answers: %s", describe(error))
            return False
        finally:
            await self._probe.end()
        if not limit.cancelled_caught or self._progress() != before:
            return False
        if answer == tree_probe.ELSEWHERE and not self._takes_nothing(before[0]):
            return False
        # A thread of a stopped process may wait for a page whose reader waits for the process.
        states = _states(before[0])
        return _STOPPED in states or states.isdisjoint(_HELD)


def _is_stopped(pid: int) -> bool:
    """Return whether a signal has stopped the process; the first thread's state shows it."""
    with contextlib.suppress(OSError):  # the process has ended
        return _state(f"/proc/{pid}/stat") == _STOPPED
    return False


def _states(pid: int | None) -> set[str]:
    """Return the states of a process's threads, as in proc(5); nothing if it has ended."""
    states = set()
    tasks = f"/proc/{pid}/task"
    with contextlib.suppress(OSError):  # the process has ended
        for thread in os.listdir(tasks):
            with contextlib.suppress(OSError):  # this thread has ended
                states.add(_state(f"{tasks}/{thread}/stat"))
    return states


def _state(path: str) -> str:
    with open(path, "rb") as file:
        return file.read().rpartition(b") ")[2][:1].decode()
