"""Files that any reader can check: their names end in a digest of their bytes."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_READS_AFTER_DEATH = 3
_PAUSE_S = 0.005  # after an error


def write_checkable_file(folder: Path, serial: int, size: int) -> None:
    data = random.Random(serial).randbytes(size)
    (folder / f"{serial:012d}-{_digest(data)}").write_bytes(data)


def is_right(name: str, data: bytes) -> bool:
    return name.endswith(_digest(data))


def read_past_cache(path: str) -> bytes:
    """Read the file from the daemon, not from the page cache."""
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return file.readall()


def read_through_deaths(folder: str, seed: int) -> Iterator[dict[str, int]]:
    """At each next(): read until the mount dies and, after that, works again.

    Yields the errors that it got, by name. One file stays open from before the mount dies
    until it works again.
    """
    order = random.Random(seed)
    names = os.listdir(folder)
    yield {}
    while True:
        errors: Counter[str] = Counter()
        reads_after_death = 0
        held_fd = -1
        while reads_after_death < _READS_AFTER_DEATH:
            path = os.path.join(folder, name := order.choice(names))
            try:
                if held_fd < 0:
                    held_fd = os.open(path, os.O_RDONLY)
                data = read_past_cache(path)
            except OSError as error:
                errors[errno.errorcode[error.errno or 0]] += 1
                reads_after_death = 0
                time.sleep(_PAUSE_S)
                continue
            if not is_right(name, data):
                raise ValueError(f"wrong bytes in {name}")
            reads_after_death += bool(errors)
        # close() sends FLUSH to a dead mount, if its server died before it refused a FLUSH.
        with contextlib.suppress(OSError):
            os.close(held_fd)
        yield dict(errors)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
