"""Lines of the log on their way to where it goes: a thread writes them, so no caller waits long.

A file system that hangs, or a pipe as stderr that is not read, holds up that thread alone.
A caller waits for its line to be written for a tenth of a second, so that what a
daemon has done is in its log, also if it is killed the next moment; but not any more once
that was too short, until all is written that waits. Of lines that wait there is a most;
those beyond are lost, and their number is logged.

Concurrency: any thread may log; the target is used by the writer's thread alone.
"""

from __future__ import annotations

import logging
import queue
import threading
from typing import Protocol

from ffrfs.errors import OptionError

LINES_MAX = 1000
PATIENCE_S = 0.1  # of who logs a line
END_LIMIT_S = 2.0  # for what waits at the end, and as much for closing

_Line = tuple[str, threading.Event]


class Target(Protocol):
    """Where lines go; may wait."""

    def write(self, line: str) -> None:
        """Without a line break at its end. OSError and OptionError: the line is lost."""

    def close(self) -> None: ...


class LogWriter(logging.Handler):
    """Writes to `target`, which it closes."""

    def __init__(self, target: Target, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._target = target
        self._lines: queue.Queue[_Line | None] = queue.Queue(LINES_MAX)
        self._lost_count = 0
        self._count_lock = threading.Lock()  # of that
        self._is_behind = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="ffrfs-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._put_count_of_lost()
            self._put(self.format(record))
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Wait for the rest to be written, but not long."""
        if not self._is_closed:
            self._is_closed = True
            try:
                self._lines.put(None, timeout=END_LIMIT_S)
            except queue.Full:
                pass
            else:
                self._thread.join(END_LIMIT_S)
        super().close()

    def _put(self, line: str) -> None:
        is_written = threading.Event()
        try:
            self._lines.put_nowait((line, is_written))
        except queue.Full:
            self._count_lost(1)
            return
        if not self._is_behind and not is_written.wait(PATIENCE_S):
            self._is_behind = True

    def _put_count_of_lost(self) -> None:
        if self._lost_count == 0 or self._lines.full():
            return
        count = self._lost_count
        self._count_lost(-count)
        text = f"{count:,} lines of the log were lost: they could not be written"
        self._put(
            self.format(
                logging.makeLogRecord(
                    {"levelno": logging.WARNING, "levelname": "WARNING", "msg": text}
                )
            )
        )

    def _count_lost(self, count: int) -> None:
        with self._count_lock:
            self._lost_count += count

    def _run(self) -> None:
        while (entry := self._lines.get()) is not None:
            line, is_written = entry
            try:
                self._target.write(line)
            except (OSError, OptionError):
                self._count_lost(1)
            is_written.set()
            if self._lines.empty():
                self._is_behind = False
        self._target.close()
