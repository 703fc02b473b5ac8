"""What a volume tells now or later, for tasks that can wait.

A task that asks for what is not at hand is parked. One task watches the volume's eventfd
and brings the parked ones what they wait for, in whichever order it comes.

Concurrency: one trio loop, one thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Concatenate, TypeVar, cast

import outcome
import trio

from ffrfs._native import Slice, TreePart, Volume

R = TypeVar("R")


class LateAnswers:
    """Of one volume, whose poll() no other code calls."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        self._tokens = itertools.count(1)
        self._parked: dict[int, trio.lowlevel.Task] = {}

    async def asked(
        self, ino: int, ask: Callable[Concatenate[int, ...], R | None], *arguments: int
    ) -> R:
        """What the volume tells about `ino`."""
        token = next(self._tokens)
        told = ask(ino, *arguments, token)
        return cast(R, await self._delivery(token)) if told is None else told

    async def deliver(self) -> None:
        """Wake those for whom something has finished; runs until it is cancelled."""
        while True:
            await trio.lowlevel.wait_readable(self._volume.eventfd)
            self._deliver_finished()

    def _deliver_finished(self) -> None:
        # A function of its own: its variables must not hold the last bytes until the next.
        for token, result in self._volume.poll():
            task = self._parked.pop(token, None)
            if task is None:  # its session is ending
                continue
            ended: outcome.Outcome[Slice | TreePart]
            ended = (
                outcome.Error(result) if isinstance(result, Exception) else outcome.Value(result)
            )
            trio.lowlevel.reschedule(task, ended)

    async def _delivery(self, token: int) -> object:
        self._parked[token] = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            del self._parked[token]
            return trio.lowlevel.Abort.SUCCEEDED

        delivered: object = await trio.lowlevel.wait_task_rescheduled(abort)
        return delivered
