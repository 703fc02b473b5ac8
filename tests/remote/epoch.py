"""Readers of a mounted tree: `python -m tests.remote.epoch ROOT SEED READERS`.

Each file's name is the CRC-32 of its content, in hexadecimal, so a reader sees wrong content.
It reads all files of ROOT in an order that SEED gives, and prints its result as a line of JSON.
It is a process of its own, since a process that reads a mount may hang with it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Epoch:
    right: int
    wrong: int
    errors: dict[str, int]  # how many, by errno


class Reading:
    """A running epoch, in a process of its own."""

    def __init__(self, root: Path, *, seed: int = 0, readers: int = 4) -> None:
        words = ["-m", "tests.remote.epoch", str(root), str(seed), str(readers)]
        self.process = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def kill(self) -> None:
        """End it at once, or fail."""
        self.process.kill()
        self.process.communicate(timeout=30)

    def result(self, timeout_s: float = 120) -> Epoch:
        """Return the result; fail if it takes longer, as the mount then hangs."""
        try:
            out, _ = self.process.communicate(timeout=timeout_s)
        finally:
            if self.process.poll() is None:
                self.kill()
        return Epoch(**json.loads(out))


def write_files(folder: Path, count: int, size: int) -> None:
    folder.mkdir()
    for number in range(count):
        content = random.Random(number).randbytes(size)
        (folder / f"{zlib.crc32(content):08x}").write_bytes(content)


def read(root: Path, **more: int) -> Epoch:
    return Reading(root, **more).result()


def _read_one(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            content = b"".join(iter(lambda: file.read(1 << 20), b""))
    except OSError as error:
        return str(error.errno)
    return "right" if f"{zlib.crc32(content):08x}" == os.path.basename(path) else "wrong"


def main(root: str, seed: str, readers: str) -> None:
    paths = sorted(entry.path for entry in os.scandir(root))
    random.Random(int(seed)).shuffle(paths)
    with ThreadPoolExecutor(int(readers)) as pool:
        found = Counter(pool.map(_read_one, paths))
    right, wrong = found.pop("right", 0), found.pop("wrong", 0)
    print(json.dumps({"right": right, "wrong": wrong, "errors": found}))


if __name__ == "__main__":
    main(*sys.argv[1:])
