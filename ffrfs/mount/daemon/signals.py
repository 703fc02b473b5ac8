"""The signals that a daemon handles, from before it mounts until after it has unmounted.

Concurrency: the main thread alone, as Python wants it.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import AsyncIterator, Iterator

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class HeldSignals:
    """Signals that arrived and wait to be handled; made by held()."""

    def __init__(self) -> None:
        self._came: list[int] = []

    def keep(self, number: int, _: object) -> None:
        """Keep the signal; it is a signal handler."""
        self._came.append(number)

    @contextlib.contextmanager
    def released(self) -> Iterator[AsyncIterator[int]]:
        """Yield the signals from now on, after the held ones."""
        import trio  # here, not above: a daemon holds signals before it imports the loop

        with trio.open_signal_receiver(*SIGNALS) as numbers:
            for number in self._came:
                signal.raise_signal(number)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            yield numbers


@contextlib.contextmanager
def held() -> Iterator[HeldSignals]:
    """Let no signal end the process inside the block.

    They are blocked, so that the programs that mount and unmount for us get none; and they
    have handlers, since threads that an engine has started by now do not block them.
    """
    waiting = HeldSignals()
    handlers = {number: signal.signal(number, waiting.keep) for number in SIGNALS}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield waiting
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
