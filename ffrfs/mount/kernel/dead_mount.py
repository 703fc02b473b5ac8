"""What a daemon that died has left at a mount point: finding out, and taking it away.

A mount is dead when the kernel says ENOTCONN for it. Only statfs is asked of the daemon
each time, and never answered out of a cache; and only the user that mounted does the kernel
tell the truth in any case. A mount that is not dead may hold up who asks, for ever if it
hangs; so a process of its own asks, is given some time, and is left behind if it is held.

Concurrency: no state; blocking. take_away_dead() is for the holder of the runtime
directory's lock (state.locked()), from looking to mounting anew.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import subprocess
import time
from typing import Any

from ffrfs.mount.kernel import kernel_mount, state
from ffrfs.mount.kernel.mount_table import MountEntry, mount_at

PROBE_TIMEOUT_S = 5.0
# What a killed daemon leaves for a moment: its worker, until that has noticed.
_WORKER_TIMEOUT_S = 5.0
_PAUSE_S = 0.05

# The second: a request that was under way when the connection ended. The third: one on its
# way into a ring of io_uring whose process was ending.
_ENDS = (errno.ENOTCONN, errno.ECONNABORTED, errno.ECANCELED)
_DEAD = tuple(map(os.strerror, _ENDS))


def take_away_dead(directory: str, mountpoint: str) -> str | None:
    """Clear the place of dead ffrfs mounts, and of what was kept for them in `directory`.

    Returns a line that says what was taken away; None: no mount was. Leaves alone what
    lives, or cannot be told from it. Raises MountError if the kernel refuses.
    """
    known = state.load(directory, mountpoint)
    if known is not None and known.process.is_alive():
        return None
    wait_s = 0.0 if known is None else _WORKER_TIMEOUT_S
    taken = detach_dead(mountpoint, wait_s)
    if known is not None and not _is_ours(mountpoint):
        state.forget(directory, known)
    if not taken:
        return None
    what = f"a dead mount of {taken[0].source}" if len(taken) == 1 else f"{len(taken)} dead mounts"
    whose = "" if known is None else f", whose daemon (process {known.process.pid}) has died"
    return f"{mountpoint}: removed {what}{whose}"


def detach_dead(mountpoint: str, wait_s: float = 0.0) -> list[MountEntry]:
    """Unmount all dead mounts of ffrfs that are stacked there, lazily if they are in use.

    `wait_s`: how long one may take to turn out to be dead. Stops at one that does not.
    """
    taken = []
    while (there := mount_at(mountpoint)) is not None and is_dead(there, wait_s):
        kernel_mount.detach(mountpoint, is_dead=True)
        taken.append(there)
    return taken


def is_dead(mount: MountEntry, wait_s: float = 0.0) -> bool:
    """Whether it is a mount of ffrfs, the topmost of its place, that is not served."""
    if not mount.is_ours:
        return False
    deadline_s = time.monotonic() + wait_s
    while not _says_dead(mount):
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(_PAUSE_S)
    return True


def is_end(error: OSError) -> bool:
    """Whether it says that what was asked is a dead mount."""
    return error.errno in _ENDS


def _is_ours(mountpoint: str) -> bool:
    there = mount_at(mountpoint)
    return there is not None and there.is_ours


def _says_dead(mount: MountEntry) -> bool:
    """Whether statfs there says so; not, if it is held, or if no process can be sent to ask."""
    try:
        # No request: the kernel knows the root of a mount.
        place = os.open(mount.mountpoint, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        process: subprocess.Popen[bytes] = subprocess.Popen(
            # Through the descriptor: the user that mounted may lack access to directories above.
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
    process.kill()  # the kernel may hold it
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_PAUSE_S)
    return False


def _identity(mount: MountEntry) -> dict[str, Any]:
    """To others than who mounted the kernel may answer statfs by itself."""
    if os.geteuid() != 0 or mount.user_id in (None, 0):
        return {}
    return {"user": mount.user_id, "group": mount.group_id, "extra_groups": []}
