"""Whether a mount would come up: what mounting asks for, asked without mounting.

What is wrong raises what mounting would raise. Nothing is left: no mount, no mount point,
no file, nor an index beside a pack; a worker that has opened the packs is ended. What
only the kernel can say, or a daemon that serves, is not known before.

Concurrency: blocking, no state.
"""

from __future__ import annotations

import os
import tempfile

from ffrfs.mount import kernel_mount, mountpoint
from ffrfs.mount.dead_mount import is_dead
from ffrfs.mount.engine import open_packs
from ffrfs.mount.memory_limit import MemoryLimit
from ffrfs.mount.mount_table import mount_at
from ffrfs.mount.report import describe
from ffrfs.mount.request import MountRequest


def check(request: MountRequest) -> list[str]:
    """What the user should know although it would come up, a line each."""
    engine = open_packs(request)
    try:
        _check_place(request.mountpoint, nonempty=request.options.nonempty)
        kernel_mount.check(request.mountpoint, request.options)
        MemoryLimit(request, engine)
        if request.log_file is not None:
            _check_can_write(request.log_file)
        return [*engine.notices, *_metrics_notices(request.metrics_file)]
    finally:
        engine.close()


def _check_place(place: str, *, nonempty: bool) -> None:
    there = mount_at(place)
    if there is not None and is_dead(there):
        return  # mounting would take it away
    if os.path.lexists(place):
        mountpoint.prepare(place, nonempty=nonempty)
    else:
        _check_can_make(place)


def _metrics_notices(path: str | None) -> list[str]:
    """Without metrics a mount serves on."""
    try:
        if path is not None:
            _check_can_make(path)
    except OSError as error:
        return [f"no figures will be written to {path}: {describe(error)}"]
    return []


def _check_can_write(path: str) -> None:
    try:
        # Not blocking: a pipe that nobody reads is an error, not a wait.
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC))
    except FileNotFoundError:
        _check_can_make(path)


def _check_can_make(path: str) -> None:
    """Try it with a file that has no name, or not for long."""
    try:
        tempfile.TemporaryFile(dir=os.path.dirname(path)).close()
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
