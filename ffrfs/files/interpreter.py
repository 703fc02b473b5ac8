"""Starting another process: the Python that runs this one, and a limit of processes. No state."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from ffrfs.errors import FfrfsError


def interpreter(what: str, kind: type[FfrfsError]) -> str:
    """Return the path of Python. Raises `kind` in a program that embeds it, and names no path."""
    if not sys.executable:
        raise kind(f"{what} cannot be started: sys.executable names no Python")
    return sys.executable


@contextlib.contextmanager
def starting_process() -> Iterator[None]:
    """Raise the BlockingIOError of a fork() in the block with advice."""
    try:
        yield
    except BlockingIOError as error:
        text = (
            "cannot start a process: all that are allowed are in use; raise the limit (ulimit -u, "
        )
        raise OSError(error.errno, f"{text}or TasksMax= of a service)") from None
