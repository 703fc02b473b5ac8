"""The Python that runs this process, to start another one of ours. No state."""

from __future__ import annotations

import sys

from ffrfs.errors import FfrfsError


def interpreter(what: str, kind: type[FfrfsError]) -> str:
    """Return its path. Raises `kind` in a program that embeds Python, and does not name one."""
    if not sys.executable:
        raise kind(f"{what} cannot be started: sys.executable names no Python")
    return sys.executable
