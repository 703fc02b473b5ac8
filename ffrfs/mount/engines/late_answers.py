"""Answers of a volume that come at once or later, for tasks that can wait.

A task is parked if the answer to its request is not at hand. One task watches the volume's
eventfd and wakes the parked tasks with their answers, in the order in which they come.

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
    """The late answers of a volume, whose poll() no other code calls."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        self._tokens = itertools.count(1)
        self._parked: dict[int, trio.lowlevel.Task] = {}

    async def asked(
        self, ino: int, ask: Callable[Concatenate[int, ...], R | None], *arguments: int
    ) -> R:
        """Return the volume's answer about `ino`."""
        token = next(self._tokens)
        told = ask(ino, *arguments, token)
        return cast(R, await self._delivery(token)) if told is None else told

    async def deliver(self) -> None:
        """Wake tasks whose answers have come; runs until it is cancelled."""
        while True:
            await trio.lowlevel.wait_readable(self._volume.eventfd)
            self._deliver_finished()

    def _deliver_finished(self) -> None:
        # A separate function, so that its variables do not hold the last bytes until the next.
        for token, result in self._volume.poll():
            task = self._parked.pop(token, None)
            if task is None:  # the session of the task is ending
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
