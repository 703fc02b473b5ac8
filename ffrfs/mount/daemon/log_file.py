"""The targets of a log: a file of the user's, the daemon's own small file, or stderr.

They use descriptors, not Python's files, whose locks would delay the end of a process in
which a thread hangs in a write.

Concurrency: one thread at a time.
"""

from __future__ import annotations

import contextlib
import os
import sys

from ffrfs.mount.daemon.output_file import open_to_append


class StandardError:
    """The stderr of the time when it was made."""

    def __init__(self) -> None:
        self._fd = os.dup(sys.stderr.fileno())

    def write(self, line: str) -> None:
        _write_line(self._fd, line)

    def close(self) -> None:
        os.close(self._fd)


class LogFile:
    """A file that other programs may move away (logrotate): then a new one of its name is begun.

    A second descriptor is for the traceback of a crash; it stays valid until close().
    """

    def __init__(self, path: str) -> None:
        """Open the file. Raises OptionError, and OSError."""
        self.path = path
        self.fd = open_to_append(path)
        try:
            self.crash_fd = open_to_append(path, create=False)
        except BaseException:
            os.close(self.fd)
            raise

    def write(self, line: str) -> None:
        self._follow()
        _write_line(self.fd, line)

    def close(self) -> None:
        os.close(self.crash_fd)
        os.close(self.fd)

    def _follow(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(self.path), os.fstat(self.fd)):
                return
        self._begin_anew()

    def _begin_anew(self) -> None:
        fd = open_to_append(self.path)
        before, self.fd = self.fd, fd
        os.close(before)


class OwnLogFile(LogFile):
    """A log beside the state file; its size is bounded, as there is at most one older file.

    Daemons of one place write to it one after the other; a new daemon may rotate it while the
    one before it still serves open files.
    """

    def __init__(self, path: str, size_max: int) -> None:
        super().__init__(path)
        self._size_max = size_max

    def _follow(self) -> None:
        super()._follow()
        if os.fstat(self.fd).st_size < self._size_max:
            return
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.path, self.path + ".1")
        self._begin_anew()


def _write_line(fd: int, line: str) -> None:
    left = memoryview((line + "\n").encode(errors="backslashreplace"))
    while left:
        left = left[os.write(fd, left) :]
