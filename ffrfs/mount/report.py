"""What came of `ffrfs mount`: an exit status of mount(8)'s, and what to tell the user.

The daemon has no terminal, so it sends this through a pipe to the process that waits.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ffrfs.errors import FfrfsError, MountError
from ffrfs.mount.request import MountRequest


class Status(enum.IntEnum):
    """Exit statuses, as mount(8) lists them."""

    MOUNTED = 0
    BAD_INPUT = 1
    SYSTEM_ERROR = 2
    REFUSED = 32


@dataclass(frozen=True)
class Report:
    """What a daemon says once, when it is ready or has failed."""

    status: Status
    lines: tuple[str, ...]  # notices of a mount that came up, or the one error

    def encode(self) -> bytes:
        lines = [" ".join(line.splitlines()) for line in self.lines]
        return "\n".join([str(int(self.status)), *lines]).encode(errors="surrogateescape")

    @classmethod
    def decode(cls, data: bytes) -> Report:
        """Read encode()'s bytes; nothing at all means that the daemon died early."""
        if not data:
            return cls(Status.SYSTEM_ERROR, ("the daemon ended before the mount was ready",))
        status, *lines = data.decode(errors="surrogateescape").split("\n")
        return cls(Status(int(status)), tuple(lines))

    @classmethod
    def failure(cls, error: Exception, request: MountRequest) -> Report:
        if isinstance(error, MountError):
            status = Status.REFUSED
        elif isinstance(error, FfrfsError) or (
            isinstance(error, OSError)
            and error.filename in (*request.packs, request.mountpoint, request.log_file)
        ):
            status = Status.BAD_INPUT
        else:
            status = Status.SYSTEM_ERROR
        return cls(status, (describe(error),))


def describe(error: BaseException) -> str:
    """One line: file first, then what is wrong with it."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    elif isinstance(error, FfrfsError | OSError):
        text = str(error)
    else:  # nothing that was foreseen: its kind says more than its text
        text = f"{type(error).__name__}: {error}"
    return " ".join(text.splitlines())
