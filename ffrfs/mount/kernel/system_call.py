"""System calls that containers and services may deny (seccomp): their errors name the call.

Such an error names no file, so its text alone says nothing. No state: safe from any thread.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator


@contextlib.contextmanager
def _named(call: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOSYS):
            raise
        advice = "allow it in the container's seccomp profile, or the service's SystemCallFilter="
        text = f"the system call {call} is denied here ({error.strerror}): {advice}"
        raise OSError(error.errno, text) from None


pidfd_open = _named("pidfd_open")(os.pidfd_open)
memfd_create = _named("memfd_create")(os.memfd_create)
flock = _named("flock")(fcntl.flock)
