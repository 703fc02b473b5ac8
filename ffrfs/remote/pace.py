"""Decides by measurement how many ranges are requested at a time, how large, over which gaps.

The number of ranges rises as long as more ranges bring more bytes in a second, and falls when a
server throttles or ranges take long. A range takes about two seconds at most, so that a block that
a reader waits for has its turn soon. A gap between two ranges is fetched too if that takes less
time than the round trip that it saves.

The functions limit the bytes that a mount has in flight and ahead, before anything is measured.

Not here: which ranges (schedule.py). Concurrency: a Pace is for the fetcher's loop alone.
"""

from __future__ import annotations

from ffrfs.remote.protocol import BLOCK_SIZE
from ffrfs.remote.settings import CACHE_SIZE_MIN

RANGES_MIN, RANGES_FEW, RANGES_MAX = 2, 24, 64  # in flight; FEW is the initial limit
RANGE_BLOCKS_MAX = 8
FLIGHT_SIZE_MAX = 128 << 20  # bytes
_FLIGHT_SIZE_MIN = CACHE_SIZE_MIN // 2  # a cache in memory holds twice that
_MEMORY_SHARE = 8  # this fraction of --max-memory may be under way
_AHEAD_SHARE = 4  # this fraction of a cache may hold blocks that are not used yet
_GAP_BLOCKS_MAX = 4
_RANGE_S = 2.0
_SLOW_S = 5.0  # ranges that take longer are too many at a time
_FIRST_S = 10.0  # the first ranges should all have come after that
_EVIDENCE_SIZE = 256 << 10  # bytes of a range that shows how fast the line is
_GATHER_MAX_S = 0.002
_WINDOW_S = 0.5
_GAIN = 1.1  # a higher limit is kept only if the rate rises by this factor


def flight_size(max_memory_bytes: int | None) -> int:
    """Return how many bytes may be under way."""
    if max_memory_bytes is None:
        return FLIGHT_SIZE_MAX
    share = max_memory_bytes // _MEMORY_SHARE
    return min(FLIGHT_SIZE_MAX, max(share, _FLIGHT_SIZE_MIN))


def memory_cache_size(in_flight: int) -> int:
    """Return the size of a cache in memory; `in_flight`: flight_size(). All in bytes."""
    return 2 * in_flight


def ahead_blocks(cache_size: int) -> int:
    """Return how many blocks may be fetched before their use.

    A block that is evicted before its use is fetched again, which evicts another one.
    """
    return max(cache_size // _AHEAD_SHARE // BLOCK_SIZE, 1)


class Pace:
    """Measures ranges, and sets limits for the next ones."""

    def __init__(self) -> None:
        self.ranges_max = RANGES_FEW
        self._latency_s = 0.0  # of a round trip; 0: unknown
        self._rate = 0.0  # bytes a second, of one range
        self._window_begin = 0.0
        self._window_bytes = 0
        self._was_full = False  # as many ranges as allowed were in flight during the whole window
        self._best_rate = 0.0  # of all ranges together, under the limit before
        self._ranges_before = RANGES_FEW
        self._is_settling = True  # this window began under another limit

    @property
    def range_blocks(self) -> int:
        if not self._rate:
            return 2
        return max(1, min(RANGE_BLOCKS_MAX, int(self._rate * _RANGE_S) // BLOCK_SIZE))

    @property
    def gather_s(self) -> float:
        """How long hints wait for adjacent hints: short, compared with a round trip."""
        return min(self._latency_s / 20, _GATHER_MAX_S)

    @property
    def gap_blocks(self) -> int:
        """How many blocks between two requested ones may be fetched as well."""
        return min(_GAP_BLOCKS_MAX, int(self._latency_s * self._rate) // BLOCK_SIZE)

    def answered(self, seconds: float) -> None:
        """Measure a request for a single byte, which took `seconds`."""
        self._latency_s = min(self._latency_s or seconds, seconds)

    def finished(self, now: float, size: int, seconds: float, full: bool) -> None:
        """Measure a range that has arrived. `full`: other ranges waited for it to end."""
        seconds = max(seconds, 1e-6)
        self._latency_s = min(self._latency_s, seconds)
        rate = size / max(seconds - self._latency_s, seconds / 10)
        self._rate += (rate - self._rate) * (0.1 if self._rate else 1.0)
        if size >= _EVIDENCE_SIZE:
            self._slow_down(seconds)
        if not self._window_bytes:
            self._window_begin, self._was_full = now - seconds, True
        self._window_bytes += size
        self._was_full &= full
        passed = now - self._window_begin
        if passed >= max(_WINDOW_S, 4 * self._latency_s):
            before = self.ranges_max
            if self._was_full and not self._is_settling:
                self._climb(self._window_bytes / passed)
            self._window_bytes = 0
            self._is_settling = self.ranges_max != before

    def throttled(self) -> None:
        """Lower the number of ranges, because the server has throttled a request."""
        self.ranges_max = max(RANGES_MIN, self.ranges_max // 2)
        self._best_rate, self._ranges_before = 0.0, self.ranges_max

    def _slow_down(self, seconds: float) -> None:
        if not self._best_rate:
            few = int(self._rate * _FIRST_S) // BLOCK_SIZE
            self.ranges_max = min(self.ranges_max, max(RANGES_MIN, few))
        if seconds > _SLOW_S:
            self.throttled()

    def _climb(self, rate: float) -> None:
        if rate > self._best_rate * _GAIN:  # at the start, and as long as it helps
            self._ranges_before, self._best_rate = self.ranges_max, rate
            self.ranges_max = min(RANGES_MAX, self.ranges_max * 3 // 2 + 1)
        elif self.ranges_max > self._ranges_before:
            self.ranges_max = self._ranges_before
        else:  # settled: the best rate decays, so that more ranges are tried again later
            self._best_rate *= 0.98
