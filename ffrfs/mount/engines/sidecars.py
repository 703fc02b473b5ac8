"""Sidecars for packs that are about to be mounted: their pickles are parsed once, not each time.

A large pack without an index of its own gets one beside it (ffrfs.folder.sidecar), which
later mounts open at once. A failure here keeps no mount from coming up: a pack whose sidecar
cannot be written is mounted without it, and the engine reports faults of a pack.

Concurrency: no state; another process that makes the same sidecar does no harm. Blocking.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence

from ffrfs.errors import FfrfsError, PackError, describe, hearing
from ffrfs.mount.engines.worker import without_secrets, worker_path

# Pickles with fewer names are parsed fast enough.
WORTH_WHILE_COUNT = 100_000


def make_sidecars(packs: Sequence[str]) -> list[str]:
    """Write missing or stale sidecars; return warnings for the user, one line each."""
    return [notice for pack in _unindexed(packs) for notice in _make_sidecar(pack)]


def _unindexed(packs: Sequence[str]) -> Sequence[str]:
    """Return the large packs without a sound sidecar; the worker lists them, as it starts fast."""
    path = worker_path()
    if path is None or not packs:
        return packs
    command = [path, f"--unindexed={WORTH_WHILE_COUNT}", *(f"--pack={pack}" for pack in packs)]
    try:
        done = subprocess.run(
            command,
            env=without_secrets(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return packs  # the command line was too long, or the worker is of another version
    return [os.fsdecode(pack) for pack in done.stdout.split(b"\0")[:-1]]


def _make_sidecar(path: str) -> list[str]:
    # Here, not above: most mounts do not need the native module in this process, and it
    # takes 90 ms to load.
    from ffrfs.folder.sidecar import ensure_sidecar
    from ffrfs.folder.tree import pack_files

    notices = []
    # A pack that cannot be opened is reported by the engine, which cannot open it either.
    with hearing() as told, contextlib.suppress(FfrfsError, OSError):
        for pack in pack_files(path):
            try:
                ensure_sidecar(pack, WORTH_WHILE_COUNT)
            except (FfrfsError, OSError) as error:
                if isinstance(error, FfrfsError) and not isinstance(error, PackError):
                    continue
                notices.append(f"{pack}: every mount will parse its index again: {describe(error)}")
    return [*map(str, told), *notices]
