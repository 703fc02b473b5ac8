"""Checks whether a mount would come up, by the steps of mounting without the mount itself.

A failed check raises the error that mounting would raise. Nothing is left: no mount, no mount
point, no file, nor an index beside a pack; a worker that has opened the packs is ended. Faults
that only the kernel or a serving daemon would find remain unknown.

Concurrency: blocking, no state.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile

from ffrfs.cache.place import check_place
from ffrfs.errors import CacheError, FileSystemHangsError, describe
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.daemon.log import check_log_file
from ffrfs.mount.daemon.memory_limit import MemoryLimit
from ffrfs.mount.daemon.metrics_file import check_metrics_file
from ffrfs.mount.daemon.output_file import within_limit
from ffrfs.mount.engines.engine_factory import open_packs
from ffrfs.mount.kernel import kernel_mount, mountpoint, state
from ffrfs.mount.kernel.dead_mount import is_dead
from ffrfs.mount.kernel.mount_elsewhere import refuse_unseen
from ffrfs.mount.kernel.mount_table import mount_at
from ffrfs.remote.url import is_url

_STATE_BYTES = 4096  # about the size of a state file


def check(request: MountRequest) -> list[str]:
    """Return notices, a line each, for the user of a mount that would come up."""
    _check_runtime_directory()
    _check_cache(request)
    engine = open_packs(_without_cache(request))
    try:
        _check_place(request.mountpoint, nonempty=request.options.nonempty)
        kernel_mount.check(request.mountpoint, request.options)
        memory = MemoryLimit(request, engine)
        if request.log_file is not None:
            _check_can_write(request.log_file)
        return [*engine.notices, *memory.notices(), *_metrics_notices(request.metrics_file)]
    finally:
        engine.close()


def _without_cache(request: MountRequest) -> MountRequest:
    """Return the request, with blocks in memory alone if the mount would write them to a disk."""
    if request.is_remote and not request.remote_settings().offline:
        return dataclasses.replace(request, cache_mode="stream")
    return request


def _check_cache(request: MountRequest) -> None:
    settings = request.remote_settings()
    # Without the default directory, a mount has a cache in memory.
    if settings.cache_dir is None or settings.cache_mode == "stream" or not request.is_remote:
        return
    try:
        check_place(settings.cache_dir, shared=settings.cache_shared)
    except CacheError as error:
        first = next(filter(is_url, request.behind_cache().packs))
        raise CacheError.at(first, str(error)) from None


def _check_runtime_directory() -> None:
    directory = state.runtime_directory(make=False)
    if os.path.lexists(directory):
        with state.writing_to(directory), tempfile.TemporaryFile(dir=directory) as file:
            file.write(bytes(_STATE_BYTES))
            file.flush()


def _check_place(place: str, *, nonempty: bool) -> None:
    there = mount_at(place)
    if there is not None and is_dead(there):
        return  # mounting would remove the dead mount
    directory = state.runtime_directory(make=False)
    if (known := state.load(directory, place)) is not None:
        refuse_unseen(directory, known)
    if os.path.lexists(place):
        mountpoint.prepare(place, nonempty=nonempty)
    else:
        _check_can_make(place)


def _metrics_notices(path: str | None) -> list[str]:
    """Return a notice if metrics cannot be written, which does not keep a mount from serving."""
    check_metrics_file(path)
    try:
        if path is not None:
            _check_can_make(path)
    except OSError as error:
        return [f"metrics cannot be written to {path}: {describe(error)}"]
    return []


def _check_can_write(path: str) -> None:
    try:
        check_log_file(path)
    except FileNotFoundError:
        _check_can_make(path)


def _check_can_make(path: str) -> None:
    """Try to make a file in the directory of `path`: one without a name, or with a brief one."""
    try:
        within_limit(path, lambda: tempfile.TemporaryFile(dir=os.path.dirname(path)).close())
    except FileSystemHangsError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
