"""Signals that come while tasks are submitted, or awaited."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import repeat

import pytest

from ffrfs.packing.driver import drive

Number = signal.Signals


class SignalError(Exception):
    """Raised by a signal handler."""


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def number(request: pytest.FixtureRequest) -> Iterator[Number]:
    """A signal whose handler raises."""

    def end(*_: object) -> None:
        raise SignalError

    before = signal.signal(request.param, end)
    yield request.param
    assert signal.signal(request.param, before) is end


class Signalled(ThreadPoolExecutor):
    """Signals come while this executor submits its second task."""

    def __init__(self, number: Number, times: int) -> None:
        super().__init__(1)
        self._number, self._times = number, times
        self.submitted = 0

    def submit(self, *arguments: object) -> Future[None]:  # type: ignore[override]
        future: Future[None] = super().submit(*arguments)  # type: ignore[arg-type]
        for _ in range(self._times if self.submitted == 1 else 0):
            signal.raise_signal(self._number)
        self.submitted += 1
        return future


def run(executor: ThreadPoolExecutor, task: Callable[[int], None]) -> None:
    tasks = repeat(0)
    with pytest.raises(SignalError), executor:
        drive(executor, 1, task, lambda: next(tasks), lambda *_: None)


def test_a_task_is_submitted_before_a_signal_raises(number: Number) -> None:
    executor = Signalled(number, 1)
    run(executor, lambda _: None)
    assert executor.submitted == 2


def test_a_second_signal_raises_at_once(number: Number) -> None:
    executor = Signalled(number, 2)
    run(executor, lambda _: None)
    assert executor.submitted == 1


def test_a_signal_interrupts_waiting_for_a_task(number: Number) -> None:
    """The task ends only after the signal was handled."""
    handled = threading.Event()
    begun = iter(range(20))

    def task(_: int) -> None:
        if next(begun) == 0:
            signal.pthread_kill(threading.main_thread().ident or 0, number)
            assert handled.wait(60)

    executor = ThreadPoolExecutor(1)
    tasks = iter([1])
    with executor:
        try:
            with pytest.raises(SignalError):
                drive(executor, 1, task, lambda: next(tasks, None), lambda *_: None)
        finally:
            handled.set()
