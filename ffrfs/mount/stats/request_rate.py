"""The rate of requests that a mount has answered lately, for clients that ask once.

It takes a sample every few seconds, so that it hardly wakes an idle machine.

Concurrency: a task of the daemon's trio loop, and callers in that loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from ffrfs.mount.engines.counter_page import Counters
from ffrfs.mount.engines.tick import TICK_S, tick
from ffrfs.mount.stats.request_times import KINDS

_AGE_MIN_S = 0.1  # of a mount: the rate of a shorter time means nothing


class RequestRate:
    """The rate by an engine's counters; of two samples, so over the last 2.5 to 5 seconds."""

    def __init__(self, counters: Callable[[], Counters], age_s: float) -> None:
        """`age_s`: how long the mount has been there; the requests of a new one count, too."""
        self._counters = counters
        count, now_s = self._sample()
        first = (0, now_s - age_s) if age_s < TICK_S else (count, now_s)
        self._samples = deque([first], maxlen=2)

    async def run(self) -> None:
        """Take samples until cancelled."""
        while True:
            await trio.sleep_until(tick())
            self._samples.append(self._sample())

    def per_s(self) -> float:
        count_before, at_s = self._samples[0]
        count, now_s = self._sample()
        age_s = now_s - at_s
        return max(count - count_before, 0) / age_s if age_s >= _AGE_MIN_S else 0.0

    def _sample(self) -> tuple[int, float]:
        counters = self._counters()
        count = sum(sum(counters.get(f"request.{kind}", [])) for kind in KINDS)
        return count, trio.current_time()
