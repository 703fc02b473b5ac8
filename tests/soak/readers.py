"""The reading processes of the soak tests, and the files that they read."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.mount.checkable_files import is_right, write_checkable_file

# Just over a page, one request, several requests, a whole record, a record verified by chunks.
SIZES = [4500, 110_000, 110_000, 110_000, 700_000, 3 << 20, 7 << 20]
# The first file of the last size has a name that begins like this.
LARGEST_PREFIX = f"{sum(SIZES[:-1]):012d}-"
_READ_SIZE = 1 << 20


def write_checkable_files(folder: Path, size_bytes: int) -> None:
    folder.mkdir()
    written = 0
    while written < size_bytes:
        for size in SIZES:
            write_checkable_file(folder, written, size)
            written += size


def read_for(folder: str, seed: int, duration_s: float, drop: float) -> Iterator[Any]:
    """Yield "ready"; read random files for this time or to the first error; yield the result.

    Before a share `drop` of the reads the kernel drops the file's pages.
    """
    order = random.Random(seed)
    names = os.listdir(folder)
    result: dict[str, Any] = {"reads": 0, "bytes": 0, "wrong": [], "errno": 0, "longest_s": 0.0}
    yield "ready"
    begin_s = time.monotonic()
    while time.monotonic() < begin_s + duration_s:
        name = order.choice(names)
        read_began_s = time.monotonic()
        try:
            data = _read(os.path.join(folder, name), order.random() < drop)
        except OSError as error:
            result["errno"] = error.errno
            break
        result["longest_s"] = max(result["longest_s"], time.monotonic() - read_began_s)
        result["reads"] += 1
        result["bytes"] += len(data)
        if not is_right(name, data):
            result["wrong"].append(name)
    yield result


def _read(path: str, drop: bool) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        if drop:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        pieces = []
        while piece := os.read(fd, _READ_SIZE):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(fd)
