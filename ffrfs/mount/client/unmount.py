"""Unmounts, whether the daemons live, hang or are long dead.

It asks the kernel, not the daemon: that always works, and a live daemon notices that its
connection has ended. It removes the state file and the mount point that a dead daemon left. A
daemon that is stopped, or does not end, is left alone, and the user gets a notice: its mount is
gone, it ends by itself when it is continued, and if it were killed, a service manager would take
that for a failure, and mount again.

Concurrency: no state; from any thread. The lock of the runtime directory is held from looking
to unmounting, so that a mount that has just been made at the same place is not unmounted.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass

from ffrfs.errors import MountError
from ffrfs.mount.kernel import dead_mount, kernel_mount, runtime_lock, state
from ffrfs.mount.kernel.kept_logs import remove_old_logs
from ffrfs.mount.kernel.mount_elsewhere import elsewhere
from ffrfs.mount.kernel.mount_table import mount_at, read_mount_table
from ffrfs.mount.kernel.mountpoint import canonical

TIMEOUT_S = 10.0
_STOPPED_LIMIT_S = 1.0  # a daemon that is stopped for longer is not waited for
_PAUSE_S = 0.1

# The runtime directory of a daemon to wait for, and its state there.
_Known = tuple[str, state.MountState]


@dataclass(frozen=True)
class Unmounted:
    """A mount that is gone."""

    # It was in use: new programs do not see it, and its open files can be read until they close.
    was_busy: bool
    notice: str | None = None  # a line for the user about its daemon


def unmount(mountpoint: str | os.PathLike[str], *, timeout_s: float = TIMEOUT_S) -> Unmounted:
    """Unmount an ffrfs mount, and wait up to `timeout_s` for its daemon to end.

    The daemon may have died. The daemon of a busy mount is not waited for. Raises MountError if
    nothing of ffrfs is mounted there, or the kernel refuses.
    """
    place = canonical(os.fspath(mountpoint))
    detached = _detach(place)
    if detached is None:
        raise MountError(f"{place}: not mounted")
    busy, known = detached
    if known is None:
        return Unmounted(busy)
    return _release(*known, busy=busy, timeout_s=timeout_s)


def unmount_dead(mountpoint: str) -> str | None:
    """Remove the mount that a dead daemon has left there; return a line that describes it.

    None: there is no mount of ffrfs, or its daemon lives.
    """
    directory, place = state.runtime_directory(), canonical(mountpoint)
    hanging = dead_mount.await_death(directory, place)
    with runtime_lock.claimed(directory):
        return dead_mount.take_away_dead(directory, place, hanging)


def unmount_all(*, timeout_s: float = TIMEOUT_S) -> Iterator[tuple[str, Unmounted | Exception]]:
    """Unmount all mounts that this user's daemons serve or have left, and dead unknown mounts.

    An unknown mount is one of this user (for root: of any user) that no runtime directory of this
    user knows. Yields each place with its result or its error, and goes on. Waits for all daemons
    together up to `timeout_s`, and before that for the daemons of mounts inside others.
    """
    waiting: list[tuple[str, bool, _Known]] = []
    # A mount inside another one is unmounted first.
    for place in sorted({known.mountpoint for _, known in state.load_all()}, reverse=True):
        # A daemon that ends looks at its mount point, which makes the mount around it busy.
        inside = [one for one in waiting if one[0].startswith(f"{place}/")]
        waiting = [one for one in waiting if one not in inside]
        yield from _release_all(inside, timeout_s)
        try:
            detached = _detach(place, is_named=False)
        except (MountError, OSError) as error:
            yield place, error
            continue
        match detached:
            case None:  # the mount has ended meanwhile, or the place is another user's by now
                continue
            case busy, None:
                yield place, Unmounted(busy)
            case busy, found:
                waiting.append((place, busy, found))
    yield from _release_all(waiting, timeout_s)
    yield from _detach_unknown()


def _detach(place: str, *, is_named: bool = True) -> tuple[bool, _Known | None] | None:
    """Unmount the mount there; return whether it was busy, and its state. None: there is none.

    `is_named`: the caller has named the place, so also unmount what another user has mounted.
    """
    found = state.find(place)
    with contextlib.nullcontext() if found is None else runtime_lock.claimed(found[0]):
        if found is not None:
            found = state.find(place)  # another daemon may have taken the place
        there = mount_at(place)
        if there is None:
            if found is not None:
                _refuse_elsewhere(*found)
            return None if found is None else (False, found)
        if not there.is_ours:
            raise MountError(f"{place}: not an ffrfs mount, but one of type {there.fstype}")
        if there.is_anothers and not is_named:
            return None
        pid = None if found is None else state.living_pid(*found)
        is_dead = found is not None and not there.is_anothers and pid is None
        busy = kernel_mount.detach(place, is_dead=is_dead)
        if pid is not None and _may_have_mount(pid, place):
            found = None  # this was a copy, or the mount of another daemon
        return busy, found


def _may_have_mount(pid: int, place: str) -> bool:
    """Return whether the daemon of living_pid() may have the mount: then it removes the files."""
    return pid == 0 or ((there := mount_at(place, pid)) is not None and there.is_ours)


def _refuse_elsewhere(directory: str, known: state.MountState) -> None:
    if where := elsewhere(directory, known):
        pid = state.living_pid(directory, known)
        how = f" (nsenter --target {pid} --mount)" if pid else ""
        raise MountError(f"{known.mountpoint}: mounted in {where}: unmount it there{how}")
    if state.living_pid(directory, known):  # else another mount may have its device by now
        for entry in read_mount_table():
            if entry.is_ours and entry.device == known.device:
                raise MountError(
                    f"{known.mountpoint}: not mounted there any more, but at {entry.mountpoint}, "
                    f"bound or moved: ffrfs umount {shlex.quote(entry.mountpoint)}"
                )


def _release(directory: str, known: state.MountState, *, busy: bool, timeout_s: float) -> Unmounted:
    """Wait for the daemon of a mount that was unmounted, and clean up after it."""
    notice = None if busy else _wait_for_end(known, timeout_s)
    state.release(directory, known)
    remove_old_logs(directory)
    return Unmounted(busy, notice)


def _release_all(
    waiting: list[tuple[str, bool, _Known]], timeout_s: float
) -> Iterator[tuple[str, Unmounted | Exception]]:
    deadline_s = time.monotonic() + timeout_s
    for place, busy, found in waiting:
        try:
            timeout_left_s = max(deadline_s - time.monotonic(), 0)
            yield place, _release(*found, busy=busy, timeout_s=timeout_left_s)
        except (MountError, OSError) as error:
            yield place, error


def _wait_for_end(known: state.MountState, timeout_s: float) -> str | None:
    """Return why the daemon has not ended; None if it has."""
    daemon = f"{known.mountpoint}: unmounted, but its daemon (process {known.process.pid})"
    now_s = time.monotonic()
    deadline_s, stopped_until_s = now_s + timeout_s, now_s + _STOPPED_LIMIT_S
    while not known.process.wait(min(_PAUSE_S, max(deadline_s - now_s, 0))):
        now_s = time.monotonic()
        if not known.process.is_stopped():
            stopped_until_s = now_s + _STOPPED_LIMIT_S
        elif now_s >= stopped_until_s:
            return f"{daemon} is stopped; it ends when it is continued (kill -CONT)"
        if now_s >= deadline_s:
            # The kernel ends a connection with the last copy of its mount.
            return (
                f"{daemon} has not ended within {timeout_s:g} s; an open file, a bind mount, or a "
                "container that was started meanwhile may still have the mount"
            )
    return None


def _detach_unknown() -> Iterator[tuple[str, Unmounted | Exception]]:
    """Unmount the dead mounts that remain, each the topmost of its place."""
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
                yield place, Unmounted(was_busy=False)
        except MountError as error:
            yield place, error
