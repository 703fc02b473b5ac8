"""Window: announced paths on their way from the thread that iterates to the one that sends.

Not here: the order that is announced (prefetch_sampler.py, hinted_epoch.py).
Concurrency: one thread adds, another iterates.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from ffrfs.mount.client.hint_paths import PathType

AHEAD_DEFAULT = 1024


def indices_of(item: Any) -> list[Any]:  # noqa: ANN401 - an index, or several
    """Return the indices of a sampler's item, which is one, or a batch of them."""
    try:
        return list(item)
    except TypeError:
        return [item]


class Window:
    """The announced paths that were not sent yet: an iterable of lists."""

    def __init__(self) -> None:
        self._paths: deque[PathType] = deque()
        self._has_ended = False
        self._changed = threading.Condition()

    def add(self, paths: Sequence[PathType], keep: int) -> None:
        """Add paths and keep at most `keep`: if the mount takes none, the oldest are useless."""
        with self._changed:
            self._paths.extend(paths)
            while len(self._paths) > keep:
                self._paths.popleft()
            self._changed.notify()

    def end(self) -> None:
        """Note that no more paths come."""
        with self._changed:
            self._has_ended = True
            self._changed.notify()

    def __iter__(self) -> Iterator[list[PathType]]:
        while True:
            with self._changed:
                while not (self._paths or self._has_ended):
                    self._changed.wait()
                piece = list(self._paths)
                self._paths.clear()
            if not piece:
                return
            yield piece
