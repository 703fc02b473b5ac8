"""Taking a mount away, whether its daemon lives, hangs or is long dead.

The kernel is asked, not the daemon: that always works, and a daemon that lives notices
that its connection has ended. What a dead one left (its state file, a mount point that
it had made) is cleaned up here.

Concurrency: no state; from any thread.
"""

from __future__ import annotations

from ffrfs.errors import MountError
from ffrfs.mount import kernel_mount, state
from ffrfs.mount.mount_table import mount_at
from ffrfs.mount.mountpoint import canonical

TIMEOUT_S = 30.0


def unmount(mountpoint: str, *, timeout_s: float = TIMEOUT_S) -> bool:
    """Unmount an ffrfs mount, and wait up to `timeout_s` for its daemon to end.

    True: it was busy. It is gone for new users then, and its daemon serves on until the
    last open file is closed, without our waiting for that. Raises MountError if nothing
    of ffrfs is mounted there, or the kernel refuses.
    """
    place = canonical(mountpoint)
    there = mount_at(place)
    found = state.find(place)
    if there is None and found is None:
        raise MountError(f"{place}: not mounted")
    if there is not None and not there.is_ours:
        raise MountError(f"{place}: not an ffrfs mount, but one of type {there.fstype}")
    is_dead = found is not None and not found[1].process.is_alive()
    busy = kernel_mount.detach(place, is_dead=is_dead) if there is not None else False
    if found is not None:
        directory, known = found
        if not busy and not known.process.wait(timeout_s):
            raise MountError(
                f"{place}: unmounted, but its daemon (process {known.process.pid}) "
                f"has not ended within {timeout_s:g} s"
            )
        state.release(directory, known)
    return busy
