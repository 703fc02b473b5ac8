"""Where a daemon's log goes: its own small file, a file of the user's, or stderr.

Where stderr is the journal, a line has its priority in front, <3> for an error, and no
time, which the journal keeps itself (sd-daemon(3)). Everywhere many lines of one cause
become their number (log_limit.py).
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import logging.handlers
import os
import sys
from collections.abc import Iterator

from ffrfs.mount.log_limit import LimitedHandler
from ffrfs.mount.printable import printable

OWN_LOG_BYTES_MAX = 1 << 20  # twice: there is one older file


class _FileFormatter(logging.Formatter):
    """One line a message, whatever the names in it: a pack's may hold line breaks."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return printable(super().formatMessage(record))


class _JournalFormatter(logging.Formatter):
    """One line a message, also if it has a traceback: each line is an entry of its own."""

    def format(self, record: logging.LogRecord) -> str:
        return f"<{_priority(record.levelno)}>{printable(super().format(record))}"


class Log:
    """Where it goes now; opened by logging_to()."""

    def __init__(self, path: str | None, *, rotate: bool) -> None:
        self._crash_fd: int | None = None
        self.handler = LimitedHandler(_handler(path, rotate))
        self._watch_crashes(path)

    def reopen(self, path: str) -> None:
        """Go on in that file; in a new one of its name, if the old one was moved away.

        Raises OSError, and goes on where it was.
        """
        self.handler.change(_handler(path, rotate=False))
        self._watch_crashes(path)

    def close(self) -> None:
        self.handler.close()
        faulthandler.disable()
        if self._crash_fd is not None:
            os.close(self._crash_fd)

    def _watch_crashes(self, path: str | None) -> None:
        # Not the handler's own descriptor: that one changes when the file rotates.
        before = self._crash_fd
        if path:
            self._crash_fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        faulthandler.enable(sys.stderr.fileno() if self._crash_fd is None else self._crash_fd)
        if before is not None:
            os.close(before)


@contextlib.contextmanager
def logging_to(path: str | None, *, rotate: bool) -> Iterator[Log]:
    """Send this process's log to `path`, or to stderr; a crash's traceback too.

    `rotate` bounds its size. Without it the file may be moved away by others (logrotate).
    """
    log = Log(path, rotate=rotate)
    root = logging.getLogger()
    root.addHandler(log.handler)
    root.setLevel(logging.INFO)
    try:
        yield log
    finally:
        root.removeHandler(log.handler)
        log.close()


def _handler(path: str | None, rotate: bool) -> logging.Handler:
    handler: logging.Handler
    if path is None:
        handler = logging.StreamHandler(sys.stderr)
    elif rotate:
        handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=OWN_LOG_BYTES_MAX, backupCount=1, errors="backslashreplace"
        )
    else:
        handler = logging.handlers.WatchedFileHandler(path, errors="backslashreplace")
    to_journal = path is None and _is_journal(sys.stderr.fileno())
    handler.setFormatter(_JournalFormatter() if to_journal else _FileFormatter())
    return handler


def _is_journal(fd: int) -> bool:
    """Whether it is what JOURNAL_STREAM names (systemd.exec(5)), and not sent elsewhere."""
    status = os.fstat(fd)
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def _priority(level: int) -> int:
    """syslog's number: 2 critical, 3 error, 4 warning, 6 info, 7 debug."""
    steps = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
    return next((priority for limit, priority in steps if level >= limit), 7)
