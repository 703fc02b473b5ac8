"""stats: what a mount has done so far, for programs.

Not here: asking (control_client.py). Concurrency: no state; from any thread.
"""

from __future__ import annotations

import os
from typing import Any

from ffrfs.mount.client.control_client import TIMEOUT_S, ask


def stats(mountpoint: str | os.PathLike[str], *, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """Return what the mount has done: requests, bytes, memory. Keys as of `ffrfs stats --json`.

    Asks the daemon, not the mount, so it also answers while reads wait for a disk. Raises
    MountError if nothing of ffrfs is mounted there, or its daemon does not answer in time.
    """
    return ask(os.fspath(mountpoint), "stats", timeout_s)
