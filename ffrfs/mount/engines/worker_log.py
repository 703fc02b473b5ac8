"""Copies the log of a worker into the daemon's log, line by line.

The lines that name unreadable files are counted on the way (read_failures.py).

Concurrency: the daemon's trio loop.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ffrfs.mount.engines.read_failures import ReadFailures

if TYPE_CHECKING:  # imported later, while a worker serves already
    import trio

_LAST_LINES = 5  # how many the error for a dead worker quotes
_LINE_SIZE_MAX = 4096
_LEVELS = {b"<3>": logging.ERROR, b"<4>": logging.WARNING, b"<6>": logging.INFO}

log = logging.getLogger(__name__)


class WorkerLog:
    """The lines of the present worker."""

    def __init__(self, failures: ReadFailures, changed: Callable[[], None]) -> None:
        """`changed` is called when further files could not be read."""
        self._failures = failures
        self._changed = changed
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)

    def __str__(self) -> str:
        """Return the last lines."""
        return "; ".join(self._last_lines) or "it has logged nothing"

    def clear(self) -> None:
        """Forget the lines: another worker begins."""
        self._last_lines.clear()

    async def copy(self, stream: trio.lowlevel.FdStream, is_copied: trio.Event) -> None:
        """Copy until the stream ends, and set the event then; closes the stream."""
        pending = b""
        async with stream:
            async for chunk in stream:
                file_count = self._failures.file_count
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    self._note(line)
                if self._failures.file_count > file_count:
                    self._changed()
                pending = pending[-_LINE_SIZE_MAX:]
        is_copied.set()

    def _note(self, line: bytes) -> None:
        # Lines without a priority come from an abort, a sanitizer or the C library.
        level = _LEVELS.get(line[:3])
        shown = self._failures.noted(line if level is None else line[3:])
        text = shown.decode(errors="backslashreplace")
        self._last_lines.append(text)
        log.log(logging.ERROR if level is None else level, "%s", text)
