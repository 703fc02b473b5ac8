"""Where a daemon's log goes: its own small file, a file of the user's, or stderr.

Where stderr is the journal, a line has its priority in front, <3> for an error, and no
time, which the journal keeps itself (sd-daemon(3)). Everywhere many lines of one cause
become their number (log_limit.py), and a thread writes what is left (log_writer.py).
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import sys
from collections.abc import Iterator

from ffrfs.mount.daemon.log_file import LogFile, OwnLogFile, StandardError
from ffrfs.mount.daemon.log_limit import LimitedHandler
from ffrfs.mount.daemon.log_writer import LogWriter
from ffrfs.mount.daemon.output_file import open_to_append, within_limit
from ffrfs.printable import printable

OWN_LOG_BYTES_MAX = 1 << 20  # twice: there is one older file


class _FileFormatter(logging.Formatter):
    """One line a message, whatever the names in it: a pack's may hold line breaks.

    `is_own`: with the daemon's number, as one that still serves open files may write there,
    too, when the next one has the place.
    """

    def __init__(self, *, is_own: bool = False) -> None:
        process = "[%(process)d] " if is_own else ""
        super().__init__(f"%(asctime)s {process}%(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return printable(super().formatMessage(record))


class _JournalFormatter(logging.Formatter):
    """One line a message, also if it has a traceback: each line is an entry of its own."""

    def format(self, record: logging.LogRecord) -> str:
        return f"<{_priority(record.levelno)}>{printable(super().format(record))}"


class _Kept(logging.Handler):
    """Lines for a file that is not there yet."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record)


class Log:
    """Where it goes now; opened by logging_to()."""

    def __init__(self, path: str | None, *, is_kept: bool = False) -> None:
        self._kept = _Kept()
        self.handler = LimitedHandler(self._kept if is_kept else _open(path, is_own=False))

    def reopen(self, path: str, *, is_own: bool = False) -> None:
        """Go on in that file; in a new one of its name, if the old one was moved away.

        `is_own`: no other program moves it, and its size is bounded. Raises OptionError and
        OSError, and goes on where it was. May take some seconds.
        """
        target = _open(path, is_own=is_own)
        self.handler.change(target)
        for line in self._kept.lines:
            target.handle(line)
        self._kept.lines.clear()

    def close(self) -> None:
        faulthandler.disable()
        self.handler.close()


@contextlib.contextmanager
def logging_to(path: str | None, *, is_kept: bool = False) -> Iterator[Log]:
    """Send this process's log to `path`, or to stderr; a crash's traceback too.

    `is_kept`: keep its lines until Log.reopen() names the file.
    Others may move the file away (logrotate). Errors as of Log.reopen().
    """
    log = Log(path, is_kept=is_kept)
    root = logging.getLogger()
    root.addHandler(log.handler)
    root.setLevel(logging.INFO)
    try:
        yield log
    finally:
        root.removeHandler(log.handler)
        log.close()


def check_log_file(path: str) -> None:
    """Raise what would be raised for it, if it is there; FileNotFoundError if not."""
    within_limit(path, lambda: os.close(open_to_append(path, create=False)))


def _open(path: str | None, *, is_own: bool) -> LogWriter:
    if path is None:
        is_journal = _is_journal(sys.stderr.fileno())
        faulthandler.enable(sys.stderr.fileno())
        return LogWriter(StandardError(), _JournalFormatter() if is_journal else _FileFormatter())

    def make() -> LogFile:
        return OwnLogFile(path, OWN_LOG_BYTES_MAX) if is_own else LogFile(path)

    file = within_limit(path, make, late=LogFile.close)
    faulthandler.enable(file.crash_fd)  # before the one that was there is closed
    return LogWriter(file, _FileFormatter(is_own=is_own))


def journal_match() -> str | None:
    """What journalctl finds the log of this process by; None: stderr is not the journal."""
    if not _is_journal(sys.stderr.fileno()):
        return None
    with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
        return match_in_group(file.read())


def match_in_group(groups: str) -> str:
    """The same for the process with that /proc/PID/cgroup, which is this one."""
    *above, unit = groups.rstrip("\n").rpartition("\n")[2].split("/")
    if not unit.endswith(".service"):
        return f"_PID={os.getpid()}"
    is_users = any(name.startswith("user@") for name in above)
    return f"--{'user-' if is_users else ''}unit={unit}"


def _is_journal(fd: int) -> bool:
    """Whether it is what JOURNAL_STREAM names (systemd.exec(5)), and not sent elsewhere."""
    status = os.fstat(fd)
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def _priority(level: int) -> int:
    """syslog's number: 2 critical, 3 error, 4 warning, 6 info, 7 debug."""
    steps = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
    return next((priority for limit, priority in steps if level >= limit), 7)
