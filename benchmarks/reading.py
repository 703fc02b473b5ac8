"""FileReader.read in batches, beside the code that one would write without it."""

from __future__ import annotations

import os
import random
import statistics
import zlib
from collections.abc import Callable
from pathlib import Path

from benchmarks import data, measure, page_cache
from benchmarks.figure import Figure, Findings
from benchmarks.plan import Plan
from ffrfs import FileReader


def run(plan: Plan) -> Findings:
    """Measure random batches, cached and verified, beside a loop of pread and zlib.crc32."""
    path = plan.folder / "records.ffr"
    data.write_records(path, plan.record_count, plan.large_size)
    try:
        return Findings(_measure(plan, path))
    finally:
        path.unlink()


def _measure(plan: Plan, path: Path) -> list[Figure]:
    pick = random.Random(plan.record_count)
    batches = [
        [pick.randrange(plan.record_count) for _ in range(plan.batch_size)]
        for _ in range(plan.batch_count)
    ]
    page_cache.fill([path])
    with FileReader(path) as reader, path.open("rb", buffering=0) as file:
        loop = _pread_loop(file.fileno(), reader)
        for ours, theirs in zip(reader.read(batches[0]), loop(batches[0]), strict=True):
            if ours.tobytes() != theirs:
                raise RuntimeError("FileReader.read and os.pread differ")
        samples = measure.interleave(
            {
                "ffrfs": lambda: measure.seconds(lambda: _read_all(reader.read, batches)),
                "pread": lambda: measure.seconds(lambda: _read_all(loop, batches)),
            },
            plan.rounds,
        )
    count = plan.batch_count * plan.batch_size
    speed = {name: [count * plan.large_size / s / 1e9 for s in samples[name]] for name in samples}
    return [
        Figure(
            f"FileReader.read, batches of {plan.batch_size}, vs. pread + zlib.crc32",
            measure.median_ratio(speed["ffrfs"], speed["pread"]),
            "x",
            at_least=2.5,
            note="{:.2f} and {:.2f} GB/s".format(*map(statistics.median, speed.values())),
            samples={f"{name}_s": values for name, values in samples.items()},
        )
    ]


def _read_all(read: Callable[[list[int]], object], batches: list[list[int]]) -> None:
    for batch in batches:
        read(batch)


def _pread_loop(fd: int, reader: FileReader) -> Callable[[list[int]], list[bytes]]:
    offsets = reader.get_offsets(0).tolist()
    checksums = reader.get_checksums(0).tolist()

    def read(indices: list[int]) -> list[bytes]:
        records = []
        for index in indices:
            offset = offsets[index]
            record = os.pread(fd, offsets[index + 1] - offset, offset)
            if zlib.crc32(record) != checksums[index]:
                raise RuntimeError(f"record {index} is bad")
            records.append(record)
        return records

    return read
