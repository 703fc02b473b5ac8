"""Logs of mounts that have ended: how long they are kept, and how many bytes of them.

A mount without --log-file has its log beside the state file; the mounts of one place share
it, one after the other. For a week after the last of them has ended `ffrfs log` shows it.
Commands that mount, unmount or list mounts remove older logs, and the oldest ones if all take
too much room: a runtime directory is usually in memory.

Concurrency: blocking, no state. It works under the lock of the runtime directory, and leaves
all to another time if another process holds the lock.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field

from ffrfs.mount.kernel import runtime_lock, state

KEPT_S = 7 * 24 * 3600
# Limits for all ended mounts of a runtime directory; the first bounds the time to look, too.
KEPT_COUNT_MAX = 1000
KEPT_BYTES_MAX = 32 << 20

_BLOCK_SIZE = 512  # unit of st_blocks, on every file system


@dataclass
class _Ended:
    """The files that are left of the mounts of one place."""

    names: list[str] = field(default_factory=list)
    ended_s: float = 0.0
    size_bytes: int = 0


def remove_old_logs(directory: str) -> None:
    """Remove logs that were kept for long enough; never waits for another process."""
    with contextlib.suppress(OSError), runtime_lock.locked(directory, wait_s=0) as is_locked:
        if is_locked:
            _remove_old(directory, time.time())


def _remove_old(directory: str, now_s: float) -> None:
    size_bytes = 0
    latest_first = sorted(_all_ended(directory), key=lambda one: one.ended_s, reverse=True)
    for number, ended in enumerate(latest_first):
        size_bytes += ended.size_bytes
        is_too_much = number >= KEPT_COUNT_MAX or size_bytes > KEPT_BYTES_MAX
        if is_too_much or now_s - ended.ended_s > KEPT_S:
            for name in ended.names:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(directory, name))


def _all_ended(directory: str) -> list[_Ended]:
    names = os.listdir(directory)
    live = {name.removesuffix(state.LIVE) for name in names if name.endswith(state.LIVE)}
    found: dict[str, _Ended] = {}
    for name in names:
        stem = name.partition(".")[0]
        # A socket without a state file is that of a daemon that was killed.
        if stem in live or name.removeprefix(stem) not in (*state.KEPT, state.SOCKET):
            continue
        with contextlib.suppress(FileNotFoundError):
            status = os.lstat(os.path.join(directory, name))
            ended = found.setdefault(stem, _Ended())
            ended.names.append(name)
            ended.ended_s = max(ended.ended_s, status.st_mtime)
            ended.size_bytes += status.st_blocks * _BLOCK_SIZE
    return list(found.values())
