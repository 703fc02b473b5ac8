"""Limits the lines of one cause, and logs the number of others: one bad disk must not fill a log.

A cause is a level and the template of a message, never its arguments: the author of a pack
chooses the names in it. A message whose template is "%s" (a line of the worker's, or an
error's text) counts by its first two words.

Concurrency: any thread may log; the handler's own lock guards all. A timer's thread, which
lives only while lines are held back, logs their number.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

LINES_MAX = 10  # of one cause, in one window
WINDOW_S = 30.0
# Causes beyond these share a window, so a log grows by at most 2570 lines in 30 s.
CAUSES_MAX = 256

Cause = tuple[str, int, str]
_OTHERS: Cause = ("", 0, "")
_WHOLE_LINE = "%s"


@dataclass
class _Window:
    """The lines of a cause, since its first line."""

    began_s: float  # monotonic
    count: int = 0
    last: logging.LogRecord | None = None  # the last line that was held back


class LimitedHandler(logging.Handler):
    """Passes a limited number of lines of each cause to `target`, which it closes."""

    def __init__(self, target: logging.Handler, *, window_s: float = WINDOW_S) -> None:
        super().__init__()
        self._target = target
        self._window_s = window_s
        self._windows: dict[Cause, _Window] = {}  # oldest first
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            now_s = time.monotonic()
            self._end_windows(now_s - self._window_s, now_s)
            window = self._window(record, now_s)
            window.count += 1
            if window.count <= LINES_MAX:
                self._target.emit(record)
            else:
                window.last = record
                self._tell_later(now_s)
        except Exception:
            self.handleError(record)

    def change(self, target: logging.Handler) -> None:
        """Pass lines to another target from now on, and close the old one."""
        with self._locked():
            before, self._target = self._target, target
        before.close()

    def close(self) -> None:
        """Log the numbers of lines held back, and end."""
        with self._locked():
            if self._timer is not None:
                self._timer.cancel()
            now_s = time.monotonic()
            self._end_windows(now_s, now_s)
            self._target.close()
        super().close()

    def _locked(self) -> threading.RLock:
        assert self.lock is not None
        return self.lock

    def _window(self, record: logging.LogRecord, now_s: float) -> _Window:
        cause = _cause(record)
        if cause not in self._windows and len(self._windows) >= CAUSES_MAX:
            cause = _OTHERS
        return self._windows.setdefault(cause, _Window(now_s))

    def _end_windows(self, began_until_s: float, now_s: float) -> None:
        while self._windows:
            cause, window = next(iter(self._windows.items()))
            if window.began_s > began_until_s:
                break
            del self._windows[cause]
            if window.last is not None:
                self._target.emit(_summary(window, now_s))

    def _tell_later(self, now_s: float) -> None:
        """Start a timer that ends the oldest window in time, even if no more lines come."""
        if self._timer is None and self._windows:
            oldest = next(iter(self._windows.values()))
            wait_s = max(oldest.began_s + self._window_s - now_s, 0)
            self._timer = threading.Timer(wait_s, self._tell)
            self._timer.daemon = True
            self._timer.start()

    def _tell(self) -> None:
        with self._locked():
            self._timer = None
            now_s = time.monotonic()
            self._end_windows(now_s - self._window_s, now_s)
            if any(window.last is not None for window in self._windows.values()):
                self._tell_later(now_s)


def _cause(record: logging.LogRecord) -> Cause:
    template = str(record.msg)
    if template == _WHOLE_LINE:
        template = " ".join(record.getMessage().split(maxsplit=2)[:2])
    return record.name, record.levelno, template


def _summary(window: _Window, now_s: float) -> logging.LogRecord:
    last = window.last
    assert last is not None
    count = window.count - LINES_MAX
    lasted_s = max(round(now_s - window.began_s), 1)
    text = f"… and {count:,} more like it in {lasted_s} s, the last: {last.getMessage()}"
    return logging.makeLogRecord(
        {"name": last.name, "levelno": last.levelno, "levelname": last.levelname, "msg": text}
    )
