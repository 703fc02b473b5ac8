"""Taking mounts away, whether their daemons live, hang or are long dead.

The kernel is asked, not the daemon: that always works, and a daemon that lives notices
that its connection has ended. What a dead one left (its state file, a mount point that
it had made) is cleaned up here.

Concurrency: no state; from any thread. From looking to unmounting the lock of the runtime
directory is held, so that no mount which has just been made in its place is taken for it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from ffrfs.errors import MountError
from ffrfs.mount import dead_mount, kernel_mount, state
from ffrfs.mount.mount_table import mount_at, read_mount_table
from ffrfs.mount.mountpoint import canonical

TIMEOUT_S = 30.0

# What is left to be waited for: a runtime directory, and what it knows.
_Known = tuple[str, state.MountState]


def unmount(mountpoint: str, *, timeout_s: float = TIMEOUT_S) -> bool:
    """Unmount an ffrfs mount, and wait up to `timeout_s` for its daemon to end.

    True: it was busy. It is gone for new users then, and its daemon serves on until the
    last open file is closed, without our waiting for that. Raises MountError if nothing
    of ffrfs is mounted there, or the kernel refuses.
    """
    place = canonical(mountpoint)
    detached = _detach(place)
    if detached is None:
        raise MountError(f"{place}: not mounted")
    busy, known = detached
    if known is not None:
        _release(*known, busy=busy, timeout_s=timeout_s)
    return busy


def unmount_dead(mountpoint: str) -> str | None:
    """Take away what a daemon that died has left there; return a line that says what.

    None: nothing was there, or not of ours, or it lives.
    """
    directory = state.runtime_directory()
    with state.locked(directory):
        return dead_mount.take_away_dead(directory, canonical(mountpoint))


def unmount_all(*, timeout_s: float = TIMEOUT_S) -> Iterator[tuple[str, bool | Exception]]:
    """Unmount all that this user's daemons serve or have left, and dead mounts besides.

    Those are this user's, for root everybody's, whom no runtime directory of this user
    knows. Yields each place with whether it was busy, or what went wrong there, and goes
    on. Waits for all daemons together up to `timeout_s`.
    """
    waiting: list[tuple[str, bool, _Known]] = []
    # What is mounted inside another mount goes before that one.
    for place in sorted({known.mountpoint for _, known in state.load_all()}, reverse=True):
        try:
            detached = _detach(place)
        except (MountError, OSError) as error:
            yield place, error
            continue
        match detached:
            case None:  # it has ended meanwhile
                continue
            case busy, None:
                yield place, busy
            case busy, found:
                waiting.append((place, busy, found))
    deadline_s = time.monotonic() + timeout_s
    for place, busy, found in waiting:
        try:
            _release(*found, busy=busy, timeout_s=max(deadline_s - time.monotonic(), 0))
            yield place, busy
        except (MountError, OSError) as error:
            yield place, error
    yield from _detach_unknown()


def _detach(place: str) -> tuple[bool, _Known | None] | None:
    """Unmount what is there: whether it was busy, and who knows of it; None: nothing is."""
    found = state.find(place)
    with contextlib.nullcontext() if found is None else state.locked(found[0]):
        if found is not None:
            found = state.find(place)  # another daemon may have the place by now
        there = mount_at(place)
        if there is None:
            return None if found is None else (False, found)
        if not there.is_ours:
            raise MountError(f"{place}: not an ffrfs mount, but one of type {there.fstype}")
        is_dead = found is not None and not found[1].process.is_alive()
        return kernel_mount.detach(place, is_dead=is_dead), found


def _release(directory: str, known: state.MountState, *, busy: bool, timeout_s: float) -> None:
    """Wait for the daemon of what was unmounted, and clean up after it."""
    if not busy and not known.process.wait(timeout_s):
        raise MountError(
            f"{known.mountpoint}: unmounted, but its daemon (process {known.process.pid}) "
            f"has not ended within {timeout_s:g} s"
        )
    state.release(directory, known)


def _detach_unknown() -> Iterator[tuple[str, bool | Exception]]:
    """Dead mounts that are still there, topmost of their places."""
    user_id = os.geteuid()
    places = {
        entry.mountpoint
        for entry in read_mount_table()
        if entry.is_ours and user_id in (0, entry.user_id)
    }
    known = {known.mountpoint for _, known in state.load_all()}
    for place in sorted(places - known, reverse=True):
        try:
            if dead_mount.detach_dead(place):
                yield place, False
        except MountError as error:
            yield place, error
