"""A cache that is too small: how much of the disk it takes, and whether reading ever stalls.

    python -m benchmarks.remote_quota ROOT LISTING COUNT

reads COUNT files in the listed order, one after the other, and prints JSON: the seconds that each
WINDOW took. It is a process of its own, so that its parent can end it if the mount hangs.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import zlib
from pathlib import Path

from benchmarks import hints

WINDOW = 100
_PAUSE_S = 0.05


class DiskUse(threading.Thread):
    """Measures again and again how much disk a directory's files take, and keeps the maximum."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.most_bytes = 0
        self._folder = folder
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(_PAUSE_S):
            self.most_bytes = max(self.most_bytes, _used_bytes(self._folder))

    def stop(self) -> int:
        self._is_over.set()
        self.join()
        return self.most_bytes


def _used_bytes(folder: Path) -> int:
    used = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            used += path.lstat().st_blocks * 512 if path.is_file() else 0
    return used


def main(root: str, listing: str, count: str) -> None:
    names, checksums = json.loads(Path(listing).read_text()).values()
    seconds = []
    wrong = 0
    files = list(zip(names, checksums, strict=True))[: int(count)]
    with hints.listening(os.fsencode(root)) as command:
        command.write("".join(f"{name}\n" for name, _ in files).encode())
        command.flush()
        begun_s = time.perf_counter()
        for number, (name, checksum) in enumerate(files, 1):
            wrong += zlib.crc32(Path(root, name).read_bytes()) != checksum
            if number % WINDOW == 0:
                now_s = time.perf_counter()
                seconds.append(now_s - begun_s)
                begun_s = now_s
    print(json.dumps({"windows": seconds, "wrong": wrong}))


if __name__ == "__main__":
    main(*sys.argv[1:])
