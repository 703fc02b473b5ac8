"""The kernel's switch for FUSE over io_uring: tests turn it on, and the last of them puts it back.

Several processes use it at once (workers of pytest-xdist, several runs of pytest). Each that
needs it holds a lock on one file. A process that finds no such lock at its end puts back the
value that the first process found. The kernel releases the locks of a killed process, and the
next run that ends puts the value back for it.

This file has only the switch; tests that need it use the fixture `uring` of conftest.py.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ffrfs.mount.kernel import uring

SWITCH = Path(uring.PARAMETER)
DIRECTORY = Path("/run/ffrfs-test-uring")
_USERS, _TURN, _BEFORE = (DIRECTORY / name for name in ("users", "turn", "before"))
_IO_URING_SETUP = 425
_PARAMETERS_SIZE = 120


def why_not() -> str | None:
    """Return why no mount can be served over io_uring, even with the switch on; None: it can."""
    if not SWITCH.exists():
        return "this kernel has no FUSE over io_uring (Linux 6.14)"
    libc = ctypes.CDLL(None, use_errno=True)
    ring = libc.syscall(_IO_URING_SETUP, 1, ctypes.create_string_buffer(_PARAMETERS_SIZE))
    if ring < 0:
        return f"io_uring is not permitted here: {errno.errorcode[ctypes.get_errno()]}"
    os.close(ring)
    if not os.access(SWITCH, os.W_OK) and not uring.is_enabled():
        return "FUSE over io_uring is off, and only root can switch it on"
    return None


@contextmanager
def switched_on() -> Iterator[None]:
    """Switch it on for new mounts. A process may be in only one such block at a time."""
    if not os.access(SWITCH, os.W_OK):  # it is on, and no test here can change it
        yield
        return
    DIRECTORY.mkdir(mode=0o700, exist_ok=True)
    with _USERS.open("a+") as users:
        with _turn():
            fcntl.lockf(users, fcntl.LOCK_SH)  # not flock(2): a fork would hold the lock, too
            if not _BEFORE.exists():
                _BEFORE.write_text(SWITCH.read_text())
            keep_on()
        try:
            yield
        finally:
            fcntl.lockf(users, fcntl.LOCK_UN)
    put_back()


def keep_on() -> None:
    """Switch it on again within switched_on(), since people may turn it off."""
    if not uring.is_enabled():
        SWITCH.write_text("Y")


def put_back() -> None:
    """Give the switch its first value again, if one is kept and no process needs it on."""
    if not _BEFORE.exists():
        return
    with _turn(), _USERS.open("a+") as users, suppress(BlockingIOError):
        fcntl.lockf(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _BEFORE.exists():
            SWITCH.write_text(_BEFORE.read_text())
            _BEFORE.unlink()


@contextmanager
def _turn() -> Iterator[None]:
    with _TURN.open("a+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        yield
