"""The files of the pack that lies on a Disk in most tests."""

from __future__ import annotations

import random

FILE_SIZE = 300_000
NAMES = ["cached", "stalled", "cold", "colder"]
SMALL_SIZE = 5000
SMALL_NAMES = [f"small{i:02d}" for i in range(30)]
ALL_NAMES = sorted(NAMES + SMALL_NAMES)


def content(name: str) -> bytes:
    return random.Random(name).randbytes(FILE_SIZE if name in NAMES else SMALL_SIZE)
