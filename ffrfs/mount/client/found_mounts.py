"""The mounts that a user may watch, and the sockets of their daemons.

An ordinary user sees the mounts of `ffrfs ps`. Root sees all: those of other users are in the
kernel's list, and each user's daemons listen in a directory that belongs to that user.
No mount is touched.

Not here: the answers (watched.py). No state.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.mount_table import MountEntry, our_places, read_mount_table
from ffrfs.mount.kernel.process import Process


@dataclass(frozen=True, kw_only=True)
class FoundMount:
    """A mount, with the facts that are known without its daemon."""

    mountpoint: str
    packs: tuple[str, ...]
    user_id: int
    is_mounted: bool  # at its place, covered or not, or moved from there
    socket: str | None  # None: no daemon is known
    process: Process | None = None  # the daemon of this user's mount


def find_mounts() -> list[FoundMount]:
    """Return all mounts by mount point, this user's mounts first."""
    # The kernel's list is read last: a state file is written before its mount is made.
    known = state.load_all()
    table = read_mount_table()
    ours = {entry.mountpoint: entry for entry in table if entry.is_ours}
    places = our_places(table)
    found = [
        _own(directory, one, not places.isdisjoint({one.mountpoint, one.device}))
        for directory, one in known
        # A killed daemon whose mount is gone, too, is not shown.
        if one.mountpoint in ours or state.lives(directory, one)
    ]
    own = {mount.mountpoint for mount in found}
    found += [
        mount
        for entry in ours.values()
        if entry.mountpoint not in own and (mount := _unrecorded(entry, table)) is not None
    ]
    return sorted(found, key=lambda mount: (mount.user_id != os.geteuid(), mount.mountpoint))


def _own(directory: str, known: state.MountState, is_mounted: bool) -> FoundMount:
    return FoundMount(
        mountpoint=known.mountpoint,
        packs=known.packs or (known.pack,),
        user_id=os.geteuid(),
        is_mounted=is_mounted,
        socket=state.socket_path(directory, known.mountpoint),
        process=known.process,
    )


def _unrecorded(entry: MountEntry, table: Sequence[MountEntry]) -> FoundMount | None:
    """Return a mount without a state file of ours: another user's, if we are root."""
    assert entry.user_id is not None
    if os.geteuid() not in (0, entry.user_id):
        return None
    directories = _directories(entry.user_id, table) if entry.user_id != os.geteuid() else iter(())
    paths = (state.socket_path(directory, entry.mountpoint) for directory in directories)
    return FoundMount(
        mountpoint=entry.mountpoint,
        packs=(entry.source,),
        user_id=entry.user_id,
        is_mounted=True,
        socket=next(filter(_is_socket, paths), None),
    )


def _directories(user_id: int, table: Sequence[MountEntry]) -> Iterator[str]:
    """Yield the directories of that user's daemons, as in state.runtime_directories().

    A directory with a mount on it is left out: the user's own FUSE file system might hang.
    """
    mounted = {entry.mountpoint for entry in table}
    for directory in (f"/run/user/{user_id}/ffrfs", f"/tmp/ffrfs-{user_id}"):
        if directory not in mounted:
            try:
                found = os.lstat(directory)
            except OSError:
                continue
            if stat.S_ISDIR(found.st_mode) and found.st_uid == user_id:
                yield directory


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
