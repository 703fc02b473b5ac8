"""Finds that a mount of a runtime directory is covered, or in another mount namespace.

Containers of one user may share the directory, which knows one mount for each place. If a process
forgot a mount that serves, or recorded another one instead, that mount would lose its control
socket and its mount point: the kernel lets a process remove a directory on which it sees no mount,
and ends a mount there that another namespace has.

No state; blocking. The caller holds the directory's lock.
"""

from __future__ import annotations

import shlex

from ffrfs.errors import MountError
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.mount_table import mount_at, read_mount_table


def elsewhere(directory: str, known: state.MountState) -> str | None:
    """Return, in words, where the daemon has the mount, if this process does not see it."""
    pid, there = state.living_pid(directory, known), mount_at(known.mountpoint)
    if pid is None or (there is not None and there.is_ours):
        return None
    if pid == 0:
        return "another PID namespace, as of a container"
    other = mount_at(known.mountpoint, pid)
    if other is None or other == there:
        return None
    return f"another mount namespace, that of process {pid}"


def refuse_unseen(directory: str, known: state.MountState) -> None:
    """Raise MountError if its daemon has the mount at its place, and this process may not mount."""
    place = known.mountpoint
    if where := elsewhere(directory, known):
        raise MountError(f"{place}: already mounted in {where}: {state.advice_for_two(directory)}")
    if (cover := _cover(directory, known)) is not None:
        raise MountError(
            f"{place}: {known.pack} is already mounted there by ffrfs, below a mount of type "
            f"{cover}; choose another mount point, or remove that one with: "
            f"umount {shlex.quote(place)}"
        )


def _cover(directory: str, known: state.MountState) -> str | None:
    """Return the type of the mount that covers it; None: it is not covered, or not served."""
    here = [entry for entry in read_mount_table() if entry.mountpoint == known.mountpoint]
    is_there = any(entry.is_ours and known.device in (None, entry.device) for entry in here)
    if not is_there or here[-1].is_ours or not state.lives(directory, known):
        return None
    return here[-1].fstype
