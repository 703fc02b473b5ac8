"""Chooses a mount's engine. A further engine is added here, and to the mount tests' list."""

from __future__ import annotations

import contextlib
import dataclasses
import os

from ffrfs.errors import FfrfsError, MountError
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.engines.engine import Engine
from ffrfs.mount.engines.kept_engine import KeptEngine
from ffrfs.mount.engines.sidecars import make_sidecars
from ffrfs.mount.engines.worker import worker_path
from ffrfs.remote.url import is_url


def open_engine(request: MountRequest, kept: KeptEngine | None = None) -> Engine:
    """Open the packs, return the engine. Raises the error of a pack before anything is mounted.

    `kept`: the state that the mount's last daemon has left.
    """
    if kept is not None:
        from ffrfs.mount.engines.native_engine import NativeEngine

        with contextlib.suppress(FfrfsError, OSError):  # only another worker would need the files
            request, _ = _with_splits(request)
        return NativeEngine(request.behind_cache(), kept)
    notices = make_sidecars([pack for pack in request.packs if not is_url(pack)])
    engine = open_packs(request)
    engine.notices[:0] = notices
    return engine


def open_packs(request: MountRequest) -> Engine:
    """Open the packs as open_engine() does, but write no sidecar beside a pack."""
    request, warnings = _with_splits(request)
    engine = _open(request.behind_cache())
    engine.notices += warnings
    return engine


def _with_splits(request: MountRequest) -> tuple[MountRequest, list[str]]:
    """Return the request with a TFDS directory replaced by its files, and warnings of omissions."""
    pack, *others = request.packs
    if others or is_url(pack) or not (os.path.isdir(pack) or not os.path.lexists(pack)):
        return request, []
    from ffrfs.tfrecord.shown_splits import shown_splits

    shown = shown_splits(pack, request.options.allow_missing)
    if shown is None:
        return request, []
    return dataclasses.replace(
        request, packs=tuple(shown.files), splits=shown.option
    ), shown.warnings


def _open(request: MountRequest) -> Engine:
    # Imported here: the process that waits for the daemon needs none of them, and the
    # daemon of a native mount needs neither pyfuse3 nor the native module.
    if request.engine == "native" or (request.engine == "auto" and worker_path()):
        from ffrfs.mount.engines.native_engine import NativeEngine

        return NativeEngine(request)
    if request.transport == "uring":
        raise MountError("--transport uring needs the native engine, which was not built")
    try:
        from ffrfs.mount.engines.pyfuse3_engine import Pyfuse3Engine
    except ImportError as error:
        raise MountError(
            f"the pyfuse3 engine needs libfuse3: install the package fuse3 ({error})"
        ) from None

    return Pyfuse3Engine(request)
