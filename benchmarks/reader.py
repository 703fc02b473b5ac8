"""The program that reads a tree: open, fstat, read all, close, in random order.

    python reader.py ROOT LISTING SEED

LISTING is JSON: {"names": [...], "checksums": [CRC-32, ...]}. Prints JSON: seconds of a first
and of a second pass in the same order, and how many files differ (a third pass, not timed).

A process of its own, so that whoever started it can end it if the mount hangs. The system
calls are made from Python, which adds about 2 µs a file, the same for every contender.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import zlib
from pathlib import Path


def read_files(paths: list[bytes], buffer: bytearray) -> float:
    """Read every file into `buffer`; return the seconds that took."""
    buffers = [buffer]
    start = time.perf_counter()
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        size = os.fstat(fd).st_size
        count = os.readv(fd, buffers)
        os.close(fd)
        if count != size:
            raise RuntimeError(f"{os.fsdecode(path)}: {count} of {size} bytes")
    return time.perf_counter() - start


def main(root: str, listing: str, seed: str) -> None:
    names, checksums = json.loads(Path(listing).read_text()).values()
    files = list(zip((os.fsencode(f"{root}/{name}") for name in names), checksums, strict=True))
    random.Random(int(seed)).shuffle(files)
    paths = [path for path, _ in files]
    buffer = bytearray(1 << 20)
    os.stat(root)  # the daemon has answered once
    first_s = read_files(paths, buffer)
    again_s = read_files(paths, buffer)
    wrong = sum(zlib.crc32(Path(os.fsdecode(path)).read_bytes()) != crc for path, crc in files)
    print(json.dumps({"first": first_s, "again": again_s, "wrong": wrong}))


if __name__ == "__main__":
    main(*sys.argv[1:])
