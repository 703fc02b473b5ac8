"""The files that prefetch tests hint and read, and a mount's figures about reading ahead.

The files are in the folder "d". The kernel does not know their inodes until somebody lists it.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ffrfs.mount.client.hint_stream import HintStream
from tests.ffrecord_file import write_folder
from tests.mount.command import TIMEOUT_S, Mount
from tests.mount.waiting import is_at_rest

COUNT = 256  # half a window: all are read ahead though nobody reads, even the last few
_SIZES = [1, 3000, 4096, 12_000, 20_000, 40_000, 70_000, 200_000]
_STEADY_S = 0.2
SOON_S = 30.0  # before the files held expire, after 60 s
NAMES = [f"{i:04d}" for i in range(COUNT)]
FILES = {name: random.Random(name).randbytes(_SIZES[i % 8]) for i, name in enumerate(NAMES)}
DIGESTS = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
SIZE_BYTES = sum(map(len, FILES.values()))


def write_hinted_files(folder: Path) -> Path:
    """Write a pack of them, with its records in the order of the names."""
    return write_folder(folder / "hinted.ffr", {"d": dict(FILES)})


def shuffled(seed: int, names: Iterable[str] = NAMES) -> list[str]:
    order = list(names)
    random.Random(seed).shuffle(order)
    return order


def texts(names: Iterable[str]) -> list[bytes]:
    """Return the hints for these, by number, as a client that hints paths looks them up."""
    return [b"%d" % int(name) for name in names]


@contextmanager
def hinted(tree: Mount, hints: Iterable[bytes]) -> Iterator[HintStream]:
    """A client that has sent these, and closes without another message."""
    stream = HintStream(str(tree.path))
    try:
        stream.send(hints)
        yield stream
    finally:
        stream.close()


def hint_all(tree: Mount, hints: Iterable[bytes]) -> None:
    """Send these hints as a client that finishes, and closes."""
    with hinted(tree, hints) as stream:
        stream.finish()


def figures(tree: Mount) -> dict[str, int]:
    """Return all numbers in its statistics as one flat table."""
    return dict(_flat(tree.statistics()))


def _flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, int]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, int):
            yield prefix + name, value


def settled(tree: Mount) -> dict[str, int]:
    """Return the same, once no thread waits for storage or a CPU and no number changes any more."""
    processes = [process for process in (tree.process, tree.worker) if process is not None]
    before = None
    since_s = start_s = time.monotonic()
    while True:
        # Before figures(), which wakes the processes.
        is_resting = all(is_at_rest(process.pid) for process in processes)
        found = _steady(figures(tree))
        now_s = time.monotonic()
        if found != before or found["queue_depth"] > 0 or not is_resting:
            before, since_s = found, now_s
        elif now_s - since_s >= _STEADY_S:
            return found
        assert now_s - start_s < TIMEOUT_S, "the mount does not come to rest"
        time.sleep(0.05)


def _steady(found: dict[str, int]) -> dict[str, int]:
    return {name: value for name, value in found.items() if "resident" not in name}


def increase(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: value - before.get(name, 0) for name, value in after.items()}
