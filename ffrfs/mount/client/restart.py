"""Lets a new worker and a new daemon serve a mount, and waits for the result.

Concurrency: blocking, no state.
"""

from __future__ import annotations

import time
from typing import Any

from ffrfs.errors import MountError
from ffrfs.mount.client import control_client

# More than the daemon takes (renewal.py) and the next one needs to begin.
TIMEOUT_S = 120.0
_ASKING_S = 0.02
_TOO_OLD = "its daemon is of a version that cannot be replaced: unmount, and mount again"


def restart(mountpoint: str) -> None:
    """Replace worker and daemon of the mount. Raises MountError if the present ones serve on."""
    try:
        before: dict[str, Any] = control_client.ask(mountpoint, "restart")
    except control_client.UnknownCommandError:
        raise MountError(f"{mountpoint}: {_TOO_OLD}") from None
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        time.sleep(_ASKING_S)
        try:
            now = control_client.stats(mountpoint)
        except control_client.RestartingError:  # the service manager is about to start the next one
            continue
        worker, worker_before = now["worker"], before["worker"]
        if worker["failed_restarts"] != worker_before["failed_restarts"]:
            serving = "all reads fail" if now["refusal"] else "the old worker serves on"
            raise MountError(f"{mountpoint}: {worker['last_failure']}; {serving}")
        is_next = now["daemon_starts"] != before["daemon_starts"]
        if worker["starts"] != worker_before["starts"]:
            if is_next or not before["daemon_ends"]:
                return
        elif is_next:  # a daemon replaces its worker before it ends, so this one has died
            before = control_client.ask(mountpoint, "restart")
    raise MountError(f"{mountpoint}: not done within {TIMEOUT_S:g} s; see: ffrfs log")
