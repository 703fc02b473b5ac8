"""The program that reads one large file from its beginning to its end.

    python -m benchmarks.streamer FILE [forget | check]

`forget` drops this file's pages from the page cache before; `check` also computes the CRC-32.
Prints JSON: seconds and, after `check`, the checksum. It is a process of its own, like reader.py.
"""

from __future__ import annotations

import json
import os
import sys
import time
import zlib

CHUNK_BYTES = 1 << 20


def main(path: str, mode: str = "") -> None:
    buffer = bytearray(CHUNK_BYTES)
    view = memoryview(buffer)
    checksum = 0
    fd = os.open(path, os.O_RDONLY)
    if mode == "forget":
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    start = time.perf_counter()
    while count := os.readv(fd, [buffer]):
        if mode == "check":
            checksum = zlib.crc32(view[:count], checksum)
    print(json.dumps({"seconds": time.perf_counter() - start, "checksum": checksum}))


if __name__ == "__main__":
    main(*sys.argv[1:])
