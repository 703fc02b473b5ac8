"""What this user has mounted, and how each mount fares, as `ffrfs ps` shows it.

Out of state files, the kernel's list, and what the daemons say of themselves. No mount is
touched: one that hangs would hold up what asks.

Concurrency: the daemons are asked side by side, by a thread each. Blocking, no state.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from ffrfs.errors import MountError
from ffrfs.mount.client import control_client
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.mount_table import read_mount_table

TIMEOUT_S = 1.0  # for a daemon's answer
_ASKED_AT_ONCE_MAX = 256

# dead: its daemon has ended. detached: it serves on for who has files open, but the mount is
# not in its place any more. unknown: no daemon of this user's is known to have made it.
Condition = Literal["live", "dead", "detached", "not answering", "unknown"]


@dataclass(frozen=True, kw_only=True)
class MountStatus:
    """One mount; None: unknown."""

    mountpoint: str
    pid: int | None  # of the daemon, also of one that has ended
    worker_pid: int | None
    packs: list[str]
    state: Condition
    age_s: float | None
    requests_per_s: float | None


def mount_statuses(timeout_s: float = TIMEOUT_S) -> list[MountStatus]:
    """All of this user's, by mount point. Takes little more than `timeout_s`."""
    # Before the state files: one is written before its mount is made.
    table = read_mount_table()
    known = [known for _, known in state.load_all()]
    answers = _ask_all(known, timeout_s) if known else []
    # Once for all of them: of a thousand mounts it is long. The last of a place is topmost.
    after = read_mount_table()
    topmost = {entry.mountpoint: entry for entry in after}
    ours = {entry.mountpoint for entry in after if entry.is_ours}  # also covered ones
    found = [
        _known(one, told, is_mounted=one.mountpoint in ours)
        for one, told in zip(known, answers, strict=True)
    ]
    places = {entry.mountpoint for entry in found}
    for entry in table:
        is_own = entry.is_ours and entry.user_id == os.geteuid()
        if is_own and entry.mountpoint not in places and topmost.get(entry.mountpoint) == entry:
            places.add(entry.mountpoint)
            found.append(_unknown(entry.mountpoint, entry.source))
    return sorted(found, key=lambda mount: mount.mountpoint)


def _ask_all(known: list[state.MountState], timeout_s: float) -> list[dict[str, Any] | None]:
    at_once = min(len(known), _ASKED_AT_ONCE_MAX)
    # If none of them answers, the last are asked when all before have had their time.
    each_s = timeout_s * at_once / len(known)
    with ThreadPoolExecutor(at_once) as threads:
        return list(threads.map(lambda one: _ask(one, each_s), known))


def _ask(known: state.MountState, timeout_s: float) -> dict[str, Any] | None:
    """What the daemon tells of itself; None: nothing."""
    if not known.process.is_alive():
        return None
    try:
        return control_client.ask(known.mountpoint, "stats", timeout_s)
    except (MountError, OSError):
        return None


def _known(
    known: state.MountState, told: dict[str, Any] | None, *, is_mounted: bool
) -> MountStatus:
    condition: Condition
    if told is not None:
        condition = "live" if is_mounted else "detached"
    else:  # asked last: it may have ended since
        condition = "not answering" if known.process.is_alive() else "dead"
    told = told or {}
    age_s = None if known.began_s is None else round(max(time.time() - known.began_s, 0), 3)
    return MountStatus(
        mountpoint=known.mountpoint,
        pid=known.process.pid,
        worker_pid=told.get("worker_pid"),
        packs=list(known.packs) or [known.pack],
        state=condition,
        age_s=told.get("age_s", age_s),
        requests_per_s=told.get("requests_per_s"),
    )


def _unknown(mountpoint: str, source: str) -> MountStatus:
    return MountStatus(
        mountpoint=mountpoint,
        pid=None,
        worker_pid=None,
        packs=[source],
        state="unknown",
        age_s=None,
        requests_per_s=None,
    )
