"""Lets a new worker serve a mount, and waits for the result.

Concurrency: blocking, no state.
"""

from __future__ import annotations

import time

from ffrfs.errors import MountError
from ffrfs.mount.client import control_client

# More than the daemon gives the new worker for opening the packs (native_engine.py).
TIMEOUT_S = 15.0
_ASKING_S = 0.02


def restart(mountpoint: str) -> None:
    """Replace the worker of the mount. Raises MountError if the present one serves on."""
    before = control_client.ask(mountpoint, "restart")
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        now = control_client.stats(mountpoint)["worker"]
        if now["failed_restarts"] != before["failed_restarts"]:
            raise MountError(f"{mountpoint}: {now['last_failure']}; the old worker serves on")
        if now["starts"] != before["starts"]:
            return
        time.sleep(_ASKING_S)
    raise MountError(f"{mountpoint}: no new worker within {TIMEOUT_S:g} s; see: ffrfs log")
