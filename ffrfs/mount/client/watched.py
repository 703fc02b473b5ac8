"""The watched mounts, asked again and again, and their activity in the last minute.

    ask()      sends a question to every daemon that owes no answer; waits for none
    receive()  takes the answers that have arrived
    looks()    returns the present knowledge, as values that do not change any more

A daemon that hangs keeps its question open and delays no other's. It gets a new question
after QUESTION_S.

Concurrency: one thread; only wait() waits. select() on `surveys` says when to receive().
"""

from __future__ import annotations

import contextlib
import select
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ffrfs.mount.client.control_survey import Survey
from ffrfs.mount.client.found_mounts import Place, find_places
from ffrfs.mount.stats.activity import BAD_ANSWER, Holdings, Sample, holdings, sample
from ffrfs.mount.stats.stats_delta import StatsDelta

KEPT_S = 60.0
QUESTION_S = 5.0
# A mount is marked after so long without an answer. A machine under load answers late.
PATIENCE_S = 2.5
_NEW_S = 2.0  # age of a new mount, whose time since mounting is a sample like any other

# As in mount_statuses.py; "waiting": for its first answer; "gone": not mounted any more.
Condition = Literal[
    "live", "dead", "detached", "no answer", "unknown", "other version", "waiting", "gone"
]


@dataclass(frozen=True, kw_only=True)
class Look:
    """The knowledge about one mount at one time."""

    place: Place
    at_s: float  # by the monotonic clock
    condition: Condition
    holdings: Holdings | None  # None: there is no answer now
    samples: tuple[Sample, ...]  # of the last minute, the oldest first

    @property
    def is_well(self) -> bool:
        return self.condition in ("live", "waiting")

    @property
    def last(self) -> Sample | None:
        """The latest activity of the mount, or None if it is unknown."""
        return self.samples[-1] if self.samples and self.holdings else None


class Watched:
    """All mounts, or one. Use it with `with`."""

    def __init__(self, only: str | None = None) -> None:
        """Watch the canonical mount point `only`; None: all mounts."""
        self._only = only
        self._records: dict[tuple[str, str | None], _Record] = {}
        self._questions: list[_Question] = []

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        for question in self._questions:
            question.survey.close()

    @property
    def surveys(self) -> list[Survey]:
        return [question.survey for question in self._questions]

    @property
    def is_waiting(self) -> bool:
        """Whether a mount that is well has not answered the last question."""
        return any(not record.is_late for one in self._questions for record in one.waits_for())

    def ask(self) -> None:
        self._find()
        self._drop_old()
        busy = {id(record) for one in self._questions for record in one.waits_for()}
        free = [one for one in self._records.values() if one.place.socket and id(one) not in busy]
        if free:
            self._questions.append(_Question(free))

    def receive(self) -> None:
        for question in self._questions:
            question.receive()
        self._drop_old()

    def wait(self, timeout_s: float) -> None:
        """Wait until all mounts that are well have answered, or the time is over."""
        deadline_s = time.monotonic() + timeout_s
        self.receive()
        while self.is_waiting and (left_s := deadline_s - time.monotonic()) > 0:
            select.select(self.surveys, [], [], left_s)
            self.receive()

    def looks(self) -> tuple[Look, ...]:
        now_s = time.monotonic()
        return tuple(record.look(now_s) for record in self._records.values())

    def _find(self) -> None:
        places = find_places()
        if self._only is not None:
            places = [place for place in places if place.mountpoint == self._only]
        before, self._records = self._records, {}
        for place in places:
            key = (place.mountpoint, place.socket)
            self._records[key] = before.get(key) or _Record(place)
            self._records[key].place = place
        if self._only is not None and not places:
            self._records = before
            for record in before.values():
                record.is_gone = True

    def _drop_old(self) -> None:
        oldest_s = time.monotonic() - QUESTION_S
        for question in [*self._questions]:
            if question.survey.is_over or question.asked_s < oldest_s:
                question.survey.close()
                self._questions.remove(question)


class _Question:
    """A survey, and the records that wait for it."""

    def __init__(self, records: list[_Record]) -> None:
        self.asked_s = time.monotonic()
        self._records = dict(enumerate(records))
        user_ids = [None if record.place.process else record.place.user_id for record in records]
        sockets = [record.place.socket or "" for record in records]
        self.survey = Survey(sockets, "stats", user_ids)

    def waits_for(self) -> list[_Record]:
        return [self._records[number] for number in self.survey.waits_for]

    def receive(self) -> None:
        self.survey.receive(0)
        now_s = time.monotonic()
        for number, answer in enumerate(self.survey.answers):
            if answer is not None:
                self._records[number].add(answer, now_s)
                self.survey.answers[number] = None


class _Record:
    """The history of one mount."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.is_gone = False
        self._found_s = self._answered_s = time.monotonic()
        self._before: Mapping[str, Any] | None = None
        self._is_understood = True
        self._holdings: Holdings | None = None
        self._samples: deque[Sample] = deque()

    @property
    def is_late(self) -> bool:
        return time.monotonic() - self._answered_s > PATIENCE_S

    def add(self, answer: Mapping[str, Any], now_s: float) -> None:
        self.is_gone = False
        before_s, self._answered_s = self._answered_s, now_s
        self._is_understood = False
        with contextlib.suppress(*BAD_ANSWER):
            self._holdings = holdings(answer)
            delta = StatsDelta(self._before, answer)
            if not delta.is_since_mount:
                self._samples.append(sample(delta, before_s, now_s))
            elif delta.time_s < _NEW_S:
                self._samples.append(sample(delta, now_s - delta.time_s, now_s))
            self._before = answer
            self._is_understood = True
        while self._samples and self._samples[0].end_s < now_s - KEPT_S - 1:
            self._samples.popleft()

    def look(self, now_s: float) -> Look:
        condition = self._condition(now_s)
        answers = condition in ("live", "detached", "waiting")
        return Look(
            place=self.place,
            at_s=now_s,
            condition=condition,
            holdings=self._holdings if answers else None,
            samples=tuple(self._samples),
        )

    def _condition(self, now_s: float) -> Condition:
        process = self.place.process
        troubles: dict[Condition, bool] = {
            "gone": self.is_gone,
            "unknown": self.place.socket is None,
            "dead": process is not None and not process.is_alive(),
            "no answer": now_s - self._answered_s > PATIENCE_S,
            "other version": not self._is_understood,
            "waiting": self._before is None,
            "detached": not self.place.is_mounted,
        }
        return next((name for name, is_so in troubles.items() if is_so), "live")
