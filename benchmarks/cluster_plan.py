"""Plans an invented listing: `python -m benchmarks.cluster_plan PLAN FILES SHARDS`.

Prints a line of JSON with its costs. It is a program, so that its memory can be measured.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ffrfs.cluster.piece import Piece
from ffrfs.cluster.plan_file import PlanWriter
from ffrfs.packing.sources.options import PackOptions

FOLDER_FILES = 1_000
SIZE_MEAN = 110_000
_TIME_NS = 1_700_000_000_000_000_000


def pieces(count: int) -> Iterator[Piece]:
    """Yield directories of FOLDER_FILES files each, in the order of the set."""
    pick = random.Random(count)
    sizes = [int(pick.expovariate(1 / SIZE_MEAN)) for _ in range(10 * FOLDER_FILES)]
    times = [_TIME_NS + pick.randrange(10**15) for _ in sizes]
    modes = [0o644] * FOLDER_FILES
    above = ((0o755, _TIME_NS),) * 3
    for first in range(0, count, FOLDER_FILES):
        number = first // FOLDER_FILES
        names = [f"{name:09}.jpg" for name in range(first, min(first + FOLDER_FILES, count))]
        begin = number % 10 * FOLDER_FILES
        files = slice(begin, begin + len(names))
        folder = f"{number // 1000:04}/{number:07}"
        yield Piece(folder, above, names, sizes[files], modes[: len(names)], times[files])


def _peak_bytes() -> int:
    """Return the peak memory of this program; getrusage() would count memory before exec(), too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def main(path: str, files: str, shards: str) -> None:
    began = time.perf_counter()
    with PlanWriter(path, {}) as writer:
        for piece in pieces(int(files)):
            writer.add(piece)
        writer.finish(PackOptions(shards=int(shards)))
    taken = {
        "seconds": time.perf_counter() - began,
        "peak_bytes": _peak_bytes(),
        "size": os.path.getsize(path),
    }
    print(json.dumps(taken))


if __name__ == "__main__":
    main(*sys.argv[1:])
