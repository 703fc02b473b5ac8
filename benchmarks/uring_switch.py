"""The kernel's switch for FUSE over io_uring, on while everything is measured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

SWITCH = Path("/sys/module/fuse/parameters/enable_uring")


def why_not() -> str:
    """Why no mount can be served over io_uring; empty: it can."""
    if not SWITCH.exists():
        return "this kernel has no FUSE over io_uring (Linux 6.14)"
    return "" if _is_on() else f"it is switched off, and only root can write {SWITCH}"


@contextlib.contextmanager
def switched_on() -> Iterator[None]:
    """Where that is possible; put back at the end. The other contenders do not use it."""
    if not SWITCH.exists() or _is_on():
        yield
        return
    try:
        SWITCH.write_text("Y")
    except OSError:  # a contender that cannot take part says so
        yield
        return
    try:
        yield
    finally:
        SWITCH.write_text("N")


def _is_on() -> bool:
    return SWITCH.read_text().strip() == "Y"
