"""Sidecars for packs that are about to be mounted: their pickles are parsed once, not each time.

A large pack without an index of its own gets one beside it (ffrfs.folder.sidecar), which
later mounts open at once. Everything here is advice: a pack whose sidecar cannot be written
is mounted all the same, and what is wrong with a pack is said by the engine.

Concurrency: no state; another process that makes the same sidecar does no harm. Blocking.
"""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Iterable, Iterator

from ffrfs.errors import FfrfsError
from ffrfs.mount.report import describe
from ffrfs.mount.worker import worker_path

# docs/format.md: the header's fixed part, and what follows it for each record; the trailer
# of an index.
_FIXED_SIZE = 12
_RECORD_SIZE = 12
_TRAILER_SIZE = 256
_TRAILER_MAGIC = b"ffrfsidx"
# As ffrfs.folder.sidecar has it: below that a pickle is parsed in no time.
_WORTH_WHILE_COUNT = 100_000
_PACK_SUFFIX = ".ffr"


def make_sidecars(packs: Iterable[str]) -> list[str]:
    """Write those that are missing or stale; return what the user should know, a line each."""
    large = [pack for pack in _files(packs) if _is_large_without_index(pack)]
    return [notice for pack in _unindexed(large) for notice in _make_sidecar(pack)]


def _unindexed(packs: list[str]) -> list[str]:
    """Those without a sound sidecar, if the worker can tell: it starts in no time."""
    path = worker_path()
    if not packs or path is None:
        return packs
    command = [path, "--unindexed", *(f"--pack={pack}" for pack in packs)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return packs  # more than a command line holds, or a worker of another version
    return [os.fsdecode(pack) for pack in done.stdout.split(b"\0")[:-1]]


def _make_sidecar(pack: str) -> list[str]:
    # Here, not above: most mounts have no need of the native module in this process, and it
    # takes 90 ms to load.
    from ffrfs.folder.sidecar import ensure_sidecar

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            ensure_sidecar(pack)
        except FfrfsError:
            return []  # nor will the engine open it, and says why
        except OSError as error:
            return [f"{pack}: every mount will parse its index anew: {describe(error)}"]
    return [str(warning.message) for warning in told]


def _files(packs: Iterable[str]) -> Iterator[str]:
    for pack in packs:
        try:
            names = sorted(os.listdir(pack))
        except OSError:  # a file; or the engine says what is wrong
            yield pack
            continue
        for name in names:
            if name.endswith(_PACK_SUFFIX) and not name.startswith("."):
                yield os.path.join(pack, name)


def _is_large_without_index(pack: str) -> bool:
    """Reads no more than it has to: this process should not wait for disks."""
    try:
        # Not blocking: a pipe is no pack.
        fd = os.open(pack, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        size = os.fstat(fd).st_size
        count = int.from_bytes(os.pread(fd, _FIXED_SIZE, 0)[4:], "little", signed=True)
        if count <= _WORTH_WHILE_COUNT or size < _FIXED_SIZE + _RECORD_SIZE * count:
            return False  # few records, or no FFRecord file
        return os.pread(fd, len(_TRAILER_MAGIC), size - _TRAILER_SIZE) != _TRAILER_MAGIC
    except OSError:
        return False
    finally:
        os.close(fd)
