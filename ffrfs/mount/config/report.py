"""The report of `ffrfs mount`: an exit status of mount(8), and lines for the user.

The daemon has no terminal, so it sends the report through a pipe to the command, which waits.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ffrfs.errors import FfrfsError, MountError, cause, describe, from_texts, to_texts
from ffrfs.mount.config.request import MountRequest
from ffrfs.printable import printable


class Status(enum.IntEnum):
    """Exit statuses, as mount(8) lists them."""

    MOUNTED = 0
    BAD_INPUT = 1
    SYSTEM_ERROR = 2
    REFUSED = 32


# A process that is killed, or that finds no memory at its start, tells nothing by itself.
_HOW = "; ffrfs mount -f shows what it says; if it was killed, as for want of memory: dmesg"


@dataclass(frozen=True)
class Report:
    """A daemon sends it once, when it is ready or has failed."""

    notices: tuple[str, ...] = ()  # warnings of a mount that succeeded
    failure: Exception | None = None

    def encode(self) -> bytes:
        failure = self.failure
        texts = ["mounted", *self.notices] if failure is None else ["failed", *to_texts(failure)]
        return "\0".join(texts).encode(errors="surrogateescape")

    @classmethod
    def decode(cls, data: bytes) -> Report:
        """Return the report in encode()'s bytes; no bytes mean that the daemon died early."""
        if not data:
            return cls(failure=OSError(f"the daemon ended before the mount was ready{_HOW}"))
        outcome, *texts = data.decode(errors="surrogateescape").split("\0")
        return cls(failure=from_texts(texts)) if outcome == "failed" else cls(tuple(texts))

    @property
    def lines(self) -> list[str]:
        if self.failure is not None:
            return [describe(self.failure)]
        return list(map(printable, self.notices))

    def status(self, request: MountRequest) -> Status:
        if self.failure is None:
            return Status.MOUNTED
        error = cause(self.failure)
        if isinstance(error, MountError):
            return Status.REFUSED
        if isinstance(error, FfrfsError) or (
            isinstance(error, OSError)
            and error.filename is not None
            and error.filename in (*request.packs, request.mountpoint, request.log_file)
        ):
            return Status.BAD_INPUT
        return Status.SYSTEM_ERROR
