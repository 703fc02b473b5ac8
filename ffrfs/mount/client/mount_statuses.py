"""What this user has mounted, and how each mount fares, as `ffrfs ps` shows it.

Out of state files, the kernel's list, and what the daemons say of themselves. No mount is
touched: one that hangs would hold up whoever asks.

Concurrency: the daemons are asked side by side, by a thread each. Blocking, no state.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from ffrfs.errors import MountError
from ffrfs.mount import control_client, state
from ffrfs.mount.mount_table import mount_at, read_mount_table

TIMEOUT_S = 1.0  # for a daemon's answer
_ASKED_AT_ONCE_MAX = 256

# dead: its daemon has ended. detached: it serves on for who has files open, but the mount is
# not in its place any more. unknown: no daemon of this user's is known to have made it.
Condition = Literal["live", "dead", "detached", "not answering", "unknown"]


@dataclass(frozen=True, kw_only=True)
class LiveMount:
    """One mount; None where nobody tells."""

    mountpoint: str
    pid: int | None  # of the daemon, also of one that has ended
    worker_pid: int | None
    packs: list[str]
    state: Condition
    age_s: float | None
    requests_per_s: float | None


def live_mounts(timeout_s: float = TIMEOUT_S) -> list[LiveMount]:
    """All of this user's, by mount point. Takes little more than `timeout_s`."""
    # Before the state files: one is written before its mount is made.
    table = read_mount_table()
    known = [known for _, known in state.load_all()]
    found = _ask_all(known, timeout_s) if known else []
    places = {entry.mountpoint for entry in found}
    for entry in table:
        is_own = entry.is_ours and entry.user_id == os.geteuid()
        # Unless it was unmounted meanwhile.
        if is_own and entry.mountpoint not in places and mount_at(entry.mountpoint) == entry:
            places.add(entry.mountpoint)
            found.append(_unknown(entry.mountpoint, entry.source))
    return sorted(found, key=lambda mount: mount.mountpoint)


def _ask_all(known: list[state.MountState], timeout_s: float) -> list[LiveMount]:
    with ThreadPoolExecutor(min(len(known), _ASKED_AT_ONCE_MAX)) as threads:
        return list(threads.map(lambda one: _ask(one, timeout_s), known))


def _ask(known: state.MountState, timeout_s: float) -> LiveMount:
    told: dict[str, Any] = {}
    condition: Condition = "dead"
    if known.process.is_alive():
        try:
            told = control_client.ask(known.mountpoint, "stats", timeout_s)
            condition = "live" if _is_mounted(known.mountpoint) else "detached"
        except (MountError, OSError):
            # Or it has ended since.
            condition = "not answering" if known.process.is_alive() else "dead"
    age_s = None if known.began_s is None else round(max(time.time() - known.began_s, 0), 3)
    return LiveMount(
        mountpoint=known.mountpoint,
        pid=known.process.pid,
        worker_pid=told.get("worker_pid"),
        packs=list(known.packs) or [known.pack],
        state=condition,
        age_s=told.get("age_s", age_s),
        requests_per_s=told.get("requests_per_s"),
    )


def _is_mounted(mountpoint: str) -> bool:
    """Also if something else covers it."""
    return any(one.is_ours and one.mountpoint == mountpoint for one in read_mount_table())


def _unknown(mountpoint: str, source: str) -> LiveMount:
    return LiveMount(
        mountpoint=mountpoint,
        pid=None,
        worker_pid=None,
        packs=[source],
        state="unknown",
        age_s=None,
        requests_per_s=None,
    )
