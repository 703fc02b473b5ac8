"""Writes the lines of the log in a thread, so that no caller waits long.

If a file system hangs, or stderr is a pipe that is not read, only that thread hangs. A caller
waits up to a tenth of a second for its line to be written, so that the log has the daemon's
last acts even if it is killed the next moment. After a wait in vain, callers do not wait until
all queued lines are written. The queue is bounded; further lines are lost, and their number is
logged.

Concurrency: any thread may log; the writer's thread alone uses the target.
"""

from __future__ import annotations

import logging
import queue
import threading
from logging.handlers import QueueHandler

from ffrfs.errors import OptionError
from ffrfs.mount.daemon.log_file import Target

LINES_MAX = 1000
PATIENCE_S = 0.1  # how long a caller waits for its line
END_LIMIT_S = 2.0  # for the queued lines at the end, and as much for closing

_Line = tuple[logging.LogRecord, threading.Event]


class LogWriter(QueueHandler):
    """Writes lines to `target`, which it finishes."""

    queue: queue.Queue[_Line | None]

    def __init__(self, target: Target, formatter: logging.Formatter) -> None:
        super().__init__(queue.Queue(LINES_MAX))
        self.setFormatter(formatter)
        self._target = target
        self._lost_count = 0
        self._count_lock = threading.Lock()  # guards _lost_count
        self._is_behind = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="ffrfs-log", daemon=True)
        self._thread.start()

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a record whose message is the whole line, and wait a short time for it."""
        if self._lost_count and not self.queue.full():
            count = self._lost_count
            self._count_lost(-count)
            text = f"{count:,} lines of the log were lost: they could not be written"
            about = {"levelno": logging.WARNING, "levelname": "WARNING", "msg": text}
            self._put(self.prepare(logging.makeLogRecord(about)))
        self._put(record)

    def close(self) -> None:
        """Wait a short time for the queued lines to be written."""
        if not self._is_closed:
            self._is_closed = True
            try:
                self.queue.put(None, timeout=END_LIMIT_S)
                self._thread.join(END_LIMIT_S)
            except queue.Full:
                pass
        super().close()

    def _put(self, record: logging.LogRecord) -> None:
        is_written = threading.Event()
        try:
            self.queue.put_nowait((record, is_written))
        except queue.Full:
            self._count_lost(1)
            return
        if not self._is_behind and not is_written.wait(PATIENCE_S):
            self._is_behind = True

    def _count_lost(self, count: int) -> None:
        with self._count_lock:
            self._lost_count += count

    def _run(self) -> None:
        while (entry := self.queue.get()) is not None:
            record, is_written = entry
            try:
                self._target.emit(record)
            except (OSError, OptionError):
                self._count_lost(1)
            is_written.set()
            if self.queue.empty():
                self._is_behind = False
        self._target.finish()
