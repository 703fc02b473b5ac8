"""The last figures of `make demo`: files a second from a slow disk, by each way of reading.

    python -m benchmarks.slow_demo DIR

Prints JSON: the rates by name, or "missing" and the reason why nothing can be measured here.
Anything else that fails, a wrong byte too, ends it with status 1. Its files stay below DIR.

The plain directory is read through slow_disk.c as the pack is. It is mounted again each time, so
nothing is cached. A read of that disk takes a millisecond; opening a file takes no time.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from benchmarks import data, mounting, mounts, packers, slow_disk
from benchmarks.contenders import FOLDER, HINTS, NATIVE
from benchmarks.reader import AS_LISTED, HINTED
from benchmarks.slow_disk import SlowDisk

COUNT, SIZE = 2_000, 20_000
READERS = 4
LIMIT_S = 40


class MissingError(Exception):
    """Nothing can be measured here; the text says why."""


def make(work: Path) -> Path:
    """Write the files and their pack; return the listing, in the order of reading."""
    for name in ("files", "packed", "slow", "mnt"):
        (work / name).mkdir()
    checksums = {}
    for index, blob in enumerate(data.blobs(COUNT, SIZE)):
        name = f"{index:04d}.bin"
        (work / "files" / name).write_bytes(blob)
        checksums[name] = zlib.crc32(blob)
    packers.pack(packers.FFR, work / "files", work / "packed" / "files.ffr")
    names = random.Random(COUNT).sample(sorted(checksums), COUNT)
    listing = work / "listing.json"
    shuffled = {"names": names, "checksums": [checksums[name] for name in names]}
    listing.write_text(json.dumps(shuffled))
    return listing


def slow(work: Path, folder: str) -> SlowDisk:
    return SlowDisk(work / "slow_disk", work / folder, work / "slow")


def try_slow_disk(work: Path) -> None:
    try:
        slow_disk.compile_program(work / "slow_disk")
        with slow(work, "packed").mounted():
            pass
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        raise MissingError(f"there is no slow disk: {error}".splitlines()[0]) from error


@contextlib.contextmanager
def mounted(work: Path, name: str, root: Path) -> Iterator[Path]:
    """Yield the files on the disk mounted at `root`, as they are or as ffrfs shows them."""
    if name == FOLDER:
        yield root
        return
    command = [*packers.FFRFS, "mount", "-f", root / "files.ffr", work / "mnt"]
    with mounts.served(command, work / "mnt") as mount:
        yield mount.root


def rate(work: Path, listing: Path, name: str) -> float:
    disk = slow(work, "files" if name == FOLDER else "packed")
    kind = f"{HINTED}read" if name == HINTS else "read"
    with disk.mounted() as slow_root, mounted(work, name, slow_root) as root:
        found = mounting.read_passes(root, listing, AS_LISTED, COUNT, READERS, kind, "check")
        if disk.counts().size_bytes < COUNT * SIZE:
            raise RuntimeError(f"{name}: some files did not come from the slow disk")
    return COUNT / float(found["seconds"][0])


def give_up(*_: object) -> NoReturn:
    raise MissingError(f"it takes more than {LIMIT_S} s on this machine")


def main(folder: str) -> None:
    work = Path(folder)
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LIMIT_S)
    try:
        listing = make(work)
        try_slow_disk(work)
        found = {name: rate(work, listing, name) for name in (FOLDER, NATIVE, HINTS)}
    except (MissingError, OSError) as missing:  # OSError: no room for the files
        print(json.dumps({"missing": str(missing)}))
    else:
        print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
