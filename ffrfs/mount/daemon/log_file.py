"""The targets of a log: stderr, a file of the user's, or the daemon's own small file.

They are handlers of the logging module, with two differences: a line that cannot be written is an
error, and nothing waits at the end of a process while a thread hangs in a write.

Concurrency: one thread at a time calls emit(), and at last finish().
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
from logging.handlers import WatchedFileHandler

from ffrfs.mount.daemon.output_file import open_to_append


class _Stream(io.FileIO):
    """A file of text without a buffer, whose lock the end of a process would wait for."""

    def write(self, text: str) -> int:  # type: ignore[override]
        left = memoryview(text.encode(errors="backslashreplace"))
        while left:
            left = left[os.write(self.fileno(), left) :]
        return len(text)


class Target(logging.StreamHandler[_Stream]):
    """Writes to a descriptor, which it owns."""

    def __init__(self, fd: int) -> None:
        super().__init__(_Stream(fd, "w"))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        raise  # noqa: PLE0704 - emit() calls this while it handles the error

    def close(self) -> None:
        """Do nothing, because logging.shutdown() calls it and must not hang."""

    def finish(self) -> None:
        """Close the descriptor, which may wait for the file system."""
        if self.stream is not None:  # it is None while a file cannot be reopened
            self.stream.close()


class LogFile(Target, WatchedFileHandler):
    """A file that other programs may move away (logrotate): then a new one of its name is begun.

    A second descriptor is for the traceback of a crash; it stays valid until finish(), and is of
    the same file.
    """

    def __init__(self, path: str) -> None:
        """Open the file. Raises OptionError, and OSError."""
        WatchedFileHandler.__init__(self, path)
        assert self.stream is not None
        self.crash_fd = os.dup(self.stream.fileno())

    def _open(self) -> _Stream:  # type: ignore[override]
        return _Stream(open_to_append(self.baseFilename), "a")

    def reopenIfNeeded(self) -> None:  # noqa: N802
        before = self.stream
        super().reopenIfNeeded()
        if self.stream is not None and self.stream is not before:
            os.dup2(self.stream.fileno(), self.crash_fd, inheritable=False)

    def finish(self) -> None:
        os.close(self.crash_fd)
        super().finish()


class OwnLogFile(LogFile):
    """A log beside the state file; its size is bounded, as there is at most one older file.

    Daemons of one place write to it one after the other; a new daemon may rotate it while the
    one before it still serves open files.
    """

    def __init__(self, path: str, size_max: int) -> None:
        super().__init__(path)
        self._size_max = size_max

    def reopenIfNeeded(self) -> None:  # noqa: N802
        super().reopenIfNeeded()
        if self.stream is None or os.fstat(self.stream.fileno()).st_size < self._size_max:
            return
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.baseFilename, self.baseFilename + ".1")
        super().reopenIfNeeded()
