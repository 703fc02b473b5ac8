"""The log of a daemon, in its own small file, in a file of the user's, or on stderr.

If stderr is the journal, a line begins with its priority, <3> for an error, and has no time,
which the journal keeps itself (sd-daemon(3)). Many lines of one cause are replaced by their
number (log_limit.py), and a thread writes the others (log_writer.py).
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import sys
from collections.abc import Iterator
from logging.handlers import MemoryHandler

from ffrfs.errors import FfrfsError, describe
from ffrfs.mount.daemon.log_file import LogFile, OwnLogFile, Target
from ffrfs.mount.daemon.log_limit import LimitedHandler
from ffrfs.mount.daemon.log_writer import LogWriter
from ffrfs.mount.daemon.output_file import open_to_append, within_limit
from ffrfs.printable import printable

KEPT_MAX = 1000  # lines before there is a file
OWN_LOG_BYTES_MAX = 1 << 20  # of a file; there may be one older file


class _FileFormatter(logging.Formatter):
    """Makes one line of a message, even if names of a pack in it hold line breaks.

    `is_own`: the line has the daemon's pid, because a daemon that still serves open files may
    write to the log of the next daemon of its place.
    """

    def __init__(self, *, is_own: bool = False) -> None:
        process = "[%(process)d] " if is_own else ""
        super().__init__(f"%(asctime)s {process}%(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return printable(super().formatMessage(record))


class _JournalFormatter(logging.Formatter):
    """Makes one line of a message with a traceback, as each line is an entry of the journal."""

    def format(self, record: logging.LogRecord) -> str:
        return f"<{_priority(record.levelno)}>{printable(super().format(record))}"


class Log:
    """The log's current target; opened by logging_to()."""

    def __init__(self, path: str | None, *, is_kept: bool, or_keep: bool) -> None:
        self._kept = MemoryHandler(KEPT_MAX, flushLevel=logging.CRITICAL + 1)
        self.failure: FfrfsError | OSError | None = None  # of opening `path`
        target: logging.Handler = self._kept
        if not is_kept:
            try:
                target = _open(path, is_own=False)
            except (FfrfsError, OSError) as error:
                if not or_keep:
                    raise
                self.failure = error
        self.is_kept = target is self._kept
        self.handler = LimitedHandler(target)

    def reopen(self, path: str, *, is_own: bool = False) -> None:
        """Write to `path` from now on, or to a new file of that name if the old one was moved.

        `is_own`: no other program moves it, and its size is bounded. Raises OptionError and
        OSError, and keeps the old target then. May take some seconds.
        """
        target = _open(path, is_own=is_own)
        self.handler.change(target)
        self._kept.setTarget(target)
        self._kept.flush()

    def close(self) -> None:
        faulthandler.disable()
        self.handler.close()


@contextlib.contextmanager
def logging_to(path: str | None, *, is_kept: bool = False, or_keep: bool = False) -> Iterator[Log]:
    """Send this process's log, and the traceback of a crash, to `path` or to stderr.

    `is_kept`: keep the lines until Log.reopen() names the file; `or_keep`: do so if `path` cannot
    be opened. Other programs (logrotate) may move the file away. Raises the errors of Log.reopen().
    """
    log = Log(path, is_kept=is_kept, or_keep=or_keep)
    root = logging.getLogger()
    root.addHandler(log.handler)
    root.setLevel(logging.INFO)
    if log.failure is not None:
        logging.warning("the log goes on elsewhere: %s", describe(log.failure))
    try:
        yield log
    finally:
        root.removeHandler(log.handler)
        log.close()


def check_log_file(path: str) -> None:
    """Raise the error of opening an existing log file; FileNotFoundError if it is missing."""
    within_limit(path, lambda: os.close(open_to_append(path, create=False)))


def _open(path: str | None, *, is_own: bool) -> LogWriter:
    if path is None:
        is_journal = _is_journal(sys.stderr.fileno())
        faulthandler.enable(sys.stderr.fileno())
        target = Target(os.dup(sys.stderr.fileno()))
        return LogWriter(target, _JournalFormatter() if is_journal else _FileFormatter())

    def make() -> LogFile:
        return OwnLogFile(path, OWN_LOG_BYTES_MAX) if is_own else LogFile(path)

    file = within_limit(path, make, late=LogFile.finish)
    faulthandler.enable(file.crash_fd)  # before the old file is closed
    return LogWriter(file, _FileFormatter(is_own=is_own))


def journal_match() -> str | None:
    """Return the journalctl argument that selects this process; None: stderr is no journal."""
    if not _is_journal(sys.stderr.fileno()):
        return None
    with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
        return match_in_group(file.read())


def match_in_group(groups: str) -> str:
    """Return that argument for this process if /proc/PID/cgroup has the text `groups`."""
    *above, unit = groups.rstrip("\n").rpartition("\n")[2].split("/")
    if not unit.endswith(".service"):
        return f"_PID={os.getpid()}"
    is_users = any(name.startswith("user@") for name in above)
    return f"--{'user-' if is_users else ''}unit={unit}"


def _is_journal(fd: int) -> bool:
    """Return whether JOURNAL_STREAM names it (systemd.exec(5)), so it was not redirected."""
    status = os.fstat(fd)
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def _priority(level: int) -> int:
    """Return syslog's number: 2 critical, 3 error, 4 warning, 6 info, 7 debug."""
    steps = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
    return next((priority for limit, priority in steps if level >= limit), 7)
