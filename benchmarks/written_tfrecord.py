"""Writing a TFRecord file until it is closed, beside TensorFlow.

    python -m benchmarks.written_tfrecord LIBRARY FILE SIZE COUNT COMPRESSION

writes COUNT records of SIZE random bytes with "ffrfs" or "tensorflow", and prints the seconds from
the first record to the end of close(). TensorFlow is in the environment that `make golden-tf`
makes; without it, nothing is compared.
"""

from __future__ import annotations

import importlib
import os
import random
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.figure import Figure
    from benchmarks.plan import Plan

CHECKOUT = Path(__file__).resolve().parent.parent
TENSORFLOW = CHECKOUT / "build" / "tensorflow" / "bin" / "python"
OURS, THEIRS = "ffrfs", "tensorflow"
TIMEOUT_S = 300
DISTINCT_RECORDS = 64  # written in turn: making random bytes takes longer than writing them


def figures(plan: Plan, folder: Path) -> Iterator[Figure]:
    """Yield records a second: of small and large ones, plain and compressed."""
    from benchmarks import measure
    from benchmarks.figure import Figure

    for size, count in plan.written_sizes.items():
        for compression in ("", "GZIP"):
            how = f"{compression.lower()}, " if compression else ""
            name = f"{count:,} records of {size:,} bytes, {how}TFRecordWriter by TensorFlow's"
            if not TENSORFLOW.exists():
                note = "not measured: `make golden-tf` installs TensorFlow"
                yield Figure(name, None, "x", at_least=1, note=note)
                continue
            words = (folder / "written", str(size), str(count), compression)
            rates = measure.interleave(
                {name: partial(_rate, name, *words) for name in (OURS, THEIRS)}, plan.rounds
            )
            ratio = measure.median_ratio(rates[OURS], rates[THEIRS])
            yield Figure(name, ratio, "x", at_least=1, samples=rates)


def _rate(library: str, file: Path, size: str, count: str, compression: str) -> float:
    from benchmarks import measure

    python = TENSORFLOW if library == THEIRS else Path(sys.executable)
    command = [python, "-m", "benchmarks.written_tfrecord", library, file, size, count, compression]
    quiet = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    seconds = float(measure.run(command, TIMEOUT_S, env=quiet, cwd=CHECKOUT))
    file.unlink()
    return int(count) / seconds


def main(library: str, file: str, size: str, count: str, compression: str = "") -> None:
    # Both libraries have the same names.
    module = importlib.import_module("ffrfs.tfrecord" if library == OURS else "tensorflow.io")
    writer: Any = module.TFRecordWriter
    pick = random.Random(1)
    records = [pick.randbytes(int(size)) for _ in range(DISTINCT_RECORDS)]
    with writer(file, compression) as output:
        start = time.perf_counter()
        for index in range(int(count)):
            output.write(records[index % DISTINCT_RECORDS])
        output.close()
        print(time.perf_counter() - start)


if __name__ == "__main__":
    main(*sys.argv[1:])
