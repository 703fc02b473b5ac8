"""Where a daemon's log goes: its own small file, a file of the user's, or stderr."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import logging.handlers
import os
import sys
from collections.abc import Iterator

OWN_LOG_BYTES_MAX = 1 << 20  # twice: there is one older file


class _LineFormatter(logging.Formatter):
    """One line a message, whatever the names in it: a pack's may hold line breaks."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        text = super().formatMessage(record)
        return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


@contextlib.contextmanager
def logging_to(path: str | None, *, rotate: bool) -> Iterator[None]:
    """Send this process's log to `path`, or to stderr; a crash's traceback too.

    `rotate` bounds its size. Without it the file may be moved away by others (logrotate).
    """
    handler = _handler(path, rotate)
    handler.setFormatter(_LineFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    # Not the handler's own descriptor: that one changes when the file rotates.
    crash_fd = os.open(path, os.O_WRONLY | os.O_APPEND) if path else sys.stderr.fileno()
    faulthandler.enable(crash_fd)
    try:
        yield
    finally:
        faulthandler.disable()
        if path:
            os.close(crash_fd)
        root.removeHandler(handler)
        handler.close()


def _handler(path: str | None, rotate: bool) -> logging.Handler:
    if path is None:
        return logging.StreamHandler(sys.stderr)
    if rotate:
        return logging.handlers.RotatingFileHandler(
            path, maxBytes=OWN_LOG_BYTES_MAX, backupCount=1, errors="backslashreplace"
        )
    return logging.handlers.WatchedFileHandler(path, errors="backslashreplace")
