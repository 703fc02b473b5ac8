"""The mounts of this user and their states, as `ffrfs ps` shows them.

They come from state files, the kernel's list, and the answers of the daemons. No mount is touched:
one that hangs would hold up its caller.

Concurrency: blocking, no state.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, Literal

from ffrfs.mount.client.control_survey import ask_all
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.kept_logs import remove_old_logs
from ffrfs.mount.kernel.mount_table import our_places, read_mount_table

TIMEOUT_S = 1.5  # for the answers of all daemons

# dead: its daemon has ended. detached: the mount is at no place any more, and serves the files
# that are still open. unknown: no daemon of this user is known to have made it.
# failing: all its reads fail since its workers died.
Condition = Literal["live", "failing", "dead", "detached", "not answering", "unknown"]


@dataclass(frozen=True, kw_only=True)
class MountStatus:
    """One mount; None: unknown."""

    mountpoint: str
    pid: int | None = None  # of the daemon, which may have ended
    worker_pid: int | None = None
    fetcher_pid: int | None = None
    changed_objects: int | None = None  # objects at URLs that were replaced since they were opened
    transport: str | None = None  # "dev" or "uring"
    packs: list[str]
    state: Condition
    age_s: float | None = None
    requests_per_s: float | None = None
    log_file: str | None = None
    journal: str | None = None  # arguments of journalctl, if the log is in the journal


def mount_statuses(timeout_s: float = TIMEOUT_S) -> list[MountStatus]:
    """Return all mounts of this user, by mount point. Takes little more than `timeout_s`."""
    for directory in state.own_directories():
        remove_old_logs(directory)
    # Read before the state files, because a state file is written before its mount is made.
    table = read_mount_table()
    known = state.load_all()
    sockets = [state.socket_path(directory, one.mountpoint) for directory, one in known]
    answers = ask_all(sockets, "status", timeout_s)
    # Read once, because the table of a thousand mounts is long. The last of a place is topmost.
    after = read_mount_table()
    topmost = {entry.mountpoint: entry for entry in after}
    ours = our_places(after)  # also mounts that others cover
    found = [
        _known(directory, one, told, is_mounted=not ours.isdisjoint({one.mountpoint, one.device}))
        for (directory, one), told in zip(known, answers, strict=True)
    ]
    # Another user may have mounted at a place where a mount of this user has died.
    others = {entry.mountpoint for entry in topmost.values() if entry.is_anothers}
    found = [one for one in found if one.state != "dead" or one.mountpoint not in others]
    places = {entry.mountpoint for entry in found}
    for entry in table:
        is_own = entry.is_ours and entry.user_id == os.geteuid()
        if is_own and entry.mountpoint not in places and topmost.get(entry.mountpoint) == entry:
            places.add(entry.mountpoint)
            found.append(
                MountStatus(mountpoint=entry.mountpoint, packs=[entry.source], state="unknown")
            )
    return sorted(found, key=lambda mount: mount.mountpoint)


def _known(
    directory: str, known: state.MountState, told: dict[str, Any] | None, *, is_mounted: bool
) -> MountStatus:
    condition: Condition
    if told is not None:
        condition = "live" if is_mounted else "detached"
        condition = "failing" if told.get("refusal") else condition
    else:  # checked last, because the daemon may have ended since
        condition = "not answering" if state.lives(directory, known) else "dead"
    told = told or {}
    age_s = None if known.began_s is None else round(max(time.time() - known.began_s, 0), 3)
    return MountStatus(
        mountpoint=known.mountpoint,
        pid=known.process.pid,
        worker_pid=told.get("worker_pid"),
        fetcher_pid=told.get("fetcher_pid"),
        changed_objects=told.get("changed_objects"),
        transport=told.get("transport"),
        packs=list(known.packs) or [known.pack],
        state=condition,
        age_s=told.get("age_s", age_s),
        requests_per_s=told.get("requests_per_s"),
        log_file=known.log_file,
        journal=known.journal,
    )
