"""Recognises and removes the mounts that a dead daemon has left at a mount point.

A mount is dead when the kernel answers ENOTCONN for it. Of all calls, only statfs reaches the
daemon each time, and is never answered from a cache; and only the user that mounted always gets
the true answer. A mount that is not dead may block the call, for ever if it hangs; so a child
process makes the call, has a limited time, and is abandoned if it is blocked.

`python -m ffrfs.mount.kernel.dead_mount PIDFD PLACE DEVICE` ends the connection of a daemon that
was killed, and of which a thread is blocked in the kernel (ffrfs-guardian --if-stuck).

Concurrency: no state; blocking. The caller of take_away_dead() holds the runtime directory's
lock (runtime_lock.py), from looking to mounting again, and has called await_death() without it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import subprocess
import sys
import time
from typing import Any

from ffrfs.mount.kernel import kernel_mount, state
from ffrfs.mount.kernel.mount_table import FSTYPE, MountEntry, mount_at

PROBE_TIMEOUT_S = 5.0
# A killed daemon leaves its worker for a moment, until the worker has noticed.
_WORKER_TIMEOUT_S = 5.0
_PAUSE_S = 0.05

# ECONNABORTED: a request was under way when the connection ended. ECANCELED: a request was on
# its way into a ring of io_uring whose process was ending.
_ENDS = (errno.ENOTCONN, errno.ECONNABORTED, errno.ECANCELED)
_DEAD = tuple(map(os.strerror, _ENDS))


def await_death(directory: str, mountpoint: str) -> MountEntry | None:
    """Wait for the end of a mount there whose daemon has died; return the mount if it hangs.

    Call it without the lock, which every process needs that mounts or unmounts in `directory`.
    """
    known = state.load(directory, mountpoint)
    there = mount_at(mountpoint)
    if known is None or there is None or not there.is_ours or state.lives(directory, known):
        return None
    deadline_s = time.monotonic() + _WORKER_TIMEOUT_S
    while not (is_told := _says_dead(there)) and time.monotonic() < deadline_s:
        time.sleep(_PAUSE_S)
    return there if is_told is None else None


def take_away_dead(
    directory: str, mountpoint: str, hanging: MountEntry | None = None
) -> str | None:
    """Remove dead ffrfs mounts from the place, and their files in `directory`.

    `hanging`: the result of await_death(). Returns a line that says what was removed, or None
    if no mount was. Leaves mounts that live, or cannot be told from living ones. Raises MountError
    if the kernel refuses.
    """
    known = state.load(directory, mountpoint)
    if known is not None and state.lives(directory, known):
        return None
    if known is not None and hanging is not None and mount_at(mountpoint) == hanging:
        # A thread of the dead daemon is blocked in the kernel, and keeps the connection: it stores
        # bytes, and waits for a page of a READ that nobody answers. Only force ends both.
        kernel_mount.detach(mountpoint, is_dead=True)
        taken = [hanging]
    else:
        taken = detach_dead(mountpoint)
    there = mount_at(mountpoint)
    if known is not None and not (there is not None and there.is_ours):
        state.forget(directory, known)
    if not taken:
        return None
    what = f"a dead mount of {taken[0].source}" if len(taken) == 1 else f"{len(taken)} dead mounts"
    whose = "" if known is None else f", whose daemon (process {known.process.pid}) has died"
    return f"{mountpoint}: removed {what}{whose}"


def detach_dead(mountpoint: str) -> list[MountEntry]:
    """Unmount all dead mounts of ffrfs that are stacked there, lazily if they are in use.

    Stops at the first that lives.
    """
    taken = []
    while (there := mount_at(mountpoint)) is not None and is_dead(there):
        kernel_mount.detach(mountpoint, is_dead=True)
        taken.append(there)
    return taken


def end_stuck(process: int, mountpoint: str, device: str) -> None:
    """End the mount's connection by force if the process of that pidfd still keeps it."""
    there = mount_at(mountpoint)
    if there is None or there.device != device:  # it was detached
        there = MountEntry(mountpoint, FSTYPE, "", device)
    kernel_mount.abort_of(process, there)


def is_dead(mount: MountEntry) -> bool:
    """Return whether it is a mount of ffrfs, the topmost of its place, that is not served."""
    return mount.is_ours and bool(_says_dead(mount))


def is_end(error: OSError) -> bool:
    """Return whether the error of a call says that its mount is dead."""
    return error.errno in _ENDS


def _says_dead(mount: MountEntry) -> bool | None:
    """Return whether statfs says so, None if it is blocked; False if no process can be started."""
    try:
        # O_PATH sends no request: the kernel knows the root of a mount.
        place = os.open(mount.mountpoint, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        process: subprocess.Popen[bytes] = subprocess.Popen(
            # By descriptor: the user that mounted may lack access to directories above.
            ["stat", "--file-system", "--format=", f"/proc/self/fd/{place}"],
            env={"PATH": kernel_mount.SEARCH_PATH, "LC_ALL": "C"},
            pass_fds=[place],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            **_identity(mount),
        )
    except OSError:
        return False
    finally:
        os.close(place)
    assert process.stderr is not None
    with process.stderr as complaint:
        if select.select([complaint], [], [], PROBE_TIMEOUT_S)[0]:
            said = complaint.read().decode(errors="replace")
            process.wait()
            return said.rstrip().endswith(_DEAD)
    process.kill()  # the kernel may still block it
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_PAUSE_S)
    return None


def _identity(mount: MountEntry) -> dict[str, Any]:
    """Return the user that mounted, for Popen: the kernel may answer other users by itself."""
    if os.geteuid() != 0 or mount.user_id in (None, 0):
        return {}
    return {"user": mount.user_id, "group": mount.group_id, "extra_groups": []}


if __name__ == "__main__":
    end_stuck(int(sys.argv[1]), *sys.argv[2:])
