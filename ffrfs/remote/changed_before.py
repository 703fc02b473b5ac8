"""Objects that an earlier fetcher of the page has found to be replaced at their origin.

This fetcher knows only their number. It subtracts each object that it finds to be replaced itself,
because it counts that one elsewhere. The number never exceeds the number of objects for which it
has not asked the origin yet.

Concurrency: the fetcher's loop. Not here: what this fetcher finds by itself (schedule.py).
"""

from __future__ import annotations

from ffrfs.remote.fetch_counters import FetchCounters
from ffrfs.remote.pin import Pin


class ChangedBefore:
    """The number of these objects. Make it before a fetcher counts its own objects."""

    def __init__(self, counters: FetchCounters) -> None:
        self._counters = counters
        self._unasked = counters["remote_objects"]
        self._changed = min(counters["remote_changed"], self._unasked)
        self._asked: set[Pin] = set()
        counters.set("remote_changed", self._changed)

    def asked(self, pin: Pin, *, is_changed: bool) -> None:
        """Note that the origin was asked for an object; a changed object is counted elsewhere."""
        if not self._changed or pin in self._asked:
            return
        self._asked.add(pin)
        self._unasked -= 1
        changed = min(self._changed - is_changed, self._unasked)
        self._counters.add("remote_changed", changed - self._changed)
        self._changed = changed
