"""The watched mounts, asked again and again, and their activity in the last minute.

    ask()      sends a question to every daemon that owes no answer; waits for none
    receive()  takes the answers that have arrived
    looks()    returns the present knowledge, as values that do not change any more

A daemon that hangs keeps its question open and delays no other's. It gets a new question
after QUESTION_S.

Concurrency: one thread; only wait() waits. select() on it says when to receive().
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ffrfs.mount.client.control_survey import Survey
from ffrfs.mount.client.found_mounts import FoundMount, find_mounts
from ffrfs.mount.stats.activity import BAD_ANSWER, Activity, Answer, activity, read_answer

KEPT_S = 60.0
QUESTION_S = 5.0
# A mount is marked after so long without an answer. A machine under load answers late.
PATIENCE_S = 2.5
_NEW_S = 2.0  # age of a new mount, whose time since mounting counts like any other

# As in mount_statuses.py; "waiting": for its first answer; "gone": not mounted any more.
Condition = Literal[
    "live", "dead", "detached", "no answer", "unknown", "other version", "waiting", "gone"
]


@dataclass(frozen=True, kw_only=True)
class Look:
    """The knowledge about one mount at one time."""

    mount: FoundMount
    at_s: float  # by the monotonic clock
    condition: Condition
    answer: Answer | None  # None: there is none now
    activities: tuple[Activity, ...]  # of the last minute, the oldest first

    @property
    def is_well(self) -> bool:
        return self.condition in ("live", "waiting")

    @property
    def last(self) -> Activity | None:
        """The latest activity of the mount, or None if it is unknown."""
        return self.activities[-1] if self.activities and self.answer else None


class Watched:
    """All mounts, or one. Use it with `with`."""

    def __init__(self, only: str | None = None) -> None:
        """Watch the canonical mount point `only`; None: all mounts."""
        self._only = only
        self._records: dict[tuple[str, str | None], _Record] = {}
        self._survey = Survey[_Record]("stats")

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self._survey.__exit__()

    def fileno(self) -> int:
        return self._survey.fileno()

    @property
    def is_waiting(self) -> bool:
        """Whether a mount that is well has not answered the last question."""
        return any(not record.is_late for record in self._survey.waits_for)

    def ask(self) -> None:
        self._find()
        now_s = time.monotonic()
        records = {*self._records.values()}
        for record in self._survey.waits_for:
            if record not in records or record.asked_s < now_s - QUESTION_S:
                self._survey.drop(record)
        for record in records - self._survey.waits_for:
            if (socket := record.mount.socket) is not None:
                record.asked_s = now_s
                user_id = None if record.mount.process else record.mount.user_id
                self._survey.ask(record, socket, user_id)

    def receive(self, timeout_s: float = 0) -> None:
        answers = self._survey.receive(timeout_s)
        now_s = time.monotonic()
        for record, answer in answers.items():
            record.add(answer, now_s)

    def wait(self, timeout_s: float) -> None:
        """Wait until all mounts that are well have answered, or the time is over."""
        deadline_s = time.monotonic() + timeout_s
        while self.is_waiting and (left_s := deadline_s - time.monotonic()) > 0:
            self.receive(left_s)

    def looks(self) -> tuple[Look, ...]:
        now_s = time.monotonic()
        return tuple(record.look(now_s) for record in self._records.values())

    def _find(self) -> None:
        mounts = find_mounts()
        if self._only is not None:
            mounts = [mount for mount in mounts if mount.mountpoint == self._only]
        before, self._records = self._records, {}
        for mount in mounts:
            key = (mount.mountpoint, mount.socket)
            self._records[key] = before.get(key) or _Record(mount)
            self._records[key].mount = mount
        if self._only is not None and not mounts:
            self._records = before
            for record in before.values():
                record.is_gone = True


class _Record:
    """The history of one mount."""

    def __init__(self, mount: FoundMount) -> None:
        self.mount = mount
        self.is_gone = False
        self.asked_s = self._answered_s = time.monotonic()
        self._is_understood = True
        self._answer: Answer | None = None
        self._activities: deque[Activity] = deque()

    @property
    def is_late(self) -> bool:
        return time.monotonic() - self._answered_s > PATIENCE_S

    def add(self, answer: Mapping[str, Any], now_s: float) -> None:
        self.is_gone = False
        before_s, self._answered_s = self._answered_s, now_s
        self._is_understood = False
        with contextlib.suppress(*BAD_ANSWER):
            found = read_answer(answer)
            new = activity(self._answer, found, before_s, now_s)
            if new.is_since_mount:
                new = activity(None, found, now_s - new.time_s, now_s)
            if not new.is_since_mount or new.time_s < _NEW_S:
                self._activities.append(new)
            self._answer = found
            self._is_understood = True
        while self._activities and self._activities[0].end_s < now_s - KEPT_S - 1:
            self._activities.popleft()

    def look(self, now_s: float) -> Look:
        condition = self._condition(now_s)
        return Look(
            mount=self.mount,
            at_s=now_s,
            condition=condition,
            answer=self._answer if condition in ("live", "detached") else None,
            activities=tuple(self._activities),
        )

    def _condition(self, now_s: float) -> Condition:
        process = self.mount.process
        troubles: dict[Condition, bool] = {
            "gone": self.is_gone,
            "unknown": self.mount.socket is None,
            "dead": process is not None and not process.is_alive(),
            "no answer": now_s - self._answered_s > PATIENCE_S,
            "other version": not self._is_understood,
            "waiting": self._answer is None,
            "detached": not self.mount.is_mounted,
        }
        return next((name for name, is_so in troubles.items() if is_so), "live")
