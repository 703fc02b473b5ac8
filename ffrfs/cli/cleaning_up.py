"""Lets commands that write end in good order, and leave nothing behind.

Concurrency: the main thread.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import NoReturn


@contextlib.contextmanager
def cleaning_up() -> Iterator[None]:
    """Let signals that would kill this process end it by an exception, so that it cleans up."""

    def end(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    unhandled = [number for number, handler in before.items() if handler is signal.SIG_DFL]
    for number in unhandled:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in unhandled:
            signal.signal(number, signal.SIG_DFL)
