"""Signals that end a command wait until no lock of a thread is held.

Python runs the handler of a signal between any two steps of the main thread. If it raises between
taking a lock and the block that releases it, the lock stays taken: threads that want it, and the
command that joins them, wait forever.

Not here: the handlers (ffrfs/cli/cleaning_up.py).
Concurrency: any thread; only the main thread has handlers to hold.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class HeldSignals:
    """In its block, the handler of a signal runs in run(), or at once if the signal comes again.

    `wake` is called when a signal first comes; it may only call functions that are safe in a
    handler.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._held: list[int] = []
        self._is_holding = True

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that shares no lock with threads; signals are handled meanwhile."""
        self._is_holding = False
        try:
            self._handle()
            return function(*args, **kwargs)
        finally:
            self._is_holding = True

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._come)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handle()

    def _come(self, number: int, frame: FrameType | None) -> None:
        if not self._is_holding or number in self._held:  # a second one is not held
            self._handlers[number](number, frame)
        else:
            self._held.append(number)
            self._wake()

    def _handle(self) -> None:
        while self._held:
            number = self._held.pop(0)
            self._handlers[number](number, None)
