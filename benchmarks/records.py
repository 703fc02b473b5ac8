"""The program that reads or writes records, with ffrfs or with ffrecord.

    python -m benchmarks.records JOB

JOB is the JSON of a Job. Prints JSON: seconds, from the first process's start to the last one's
end, and the seconds of CPU that all of them took meanwhile. Both libraries run the same lines:
they have the same names.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import random
import resource
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from benchmarks import data, page_cache

READ, WRITE, LOAD = "read", "write", "load"
CACHED, EVICTED = "cached", "evicted"
DISTINCT_BLOBS = 64  # written in turn: making random bytes takes longer than writing them


@dataclass(frozen=True)
class Job:
    library: str  # the module's name
    task: str  # READ, WRITE until close(), LOAD by a DataLoader
    place: str
    size: int  # of a record
    count: int  # of records: written, or read by all processes in a pass
    batch: int = 1
    processes: int = 1  # for LOAD: workers
    state: str = CACHED  # of the file's pages before the first pass
    in_order: bool = False
    passes: int = 1

    def as_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Part:
    """The work of one process; times are those of a clock that all processes share."""

    start: float
    end: float
    cpu_s: float


def blobs(job: Job) -> Iterator[bytes]:
    known = list(data.blobs(min(job.count, DISTINCT_BLOBS), job.size))
    return (known[index % len(known)] for index in range(job.count))


def _write(job: Job, library: Any) -> list[Part]:
    records = list(blobs(job))
    before, start = _cpu_s(), time.perf_counter()
    writer = library.FileWriter(job.place, job.count)
    for record in records:
        writer.write_one(record)
    writer.close()
    return [Part(start, time.perf_counter(), _cpu_s() - before)]


def _read(job: Job, library: Any) -> list[Part]:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(job.processes)
    parts: SimpleQueue[Part] = context.SimpleQueue()
    readers = [
        context.Process(target=_read_share, args=(job, library, number, barrier, parts))
        for number in range(job.processes)
    ]
    for reader in readers:
        reader.start()
    found = [parts.get() for _ in readers]
    for reader in readers:
        reader.join()
    return found


def _read_share(
    job: Job, library: Any, number: int, barrier: Barrier, parts: SimpleQueue[Part]
) -> None:
    """Read every `processes`-th batch of an order that all processes know."""
    reader = library.FileReader(job.place)
    batches = _batches(job, reader.n)[number :: job.processes]
    checked = reader.read(batches[0])
    _set_pages(job, number, barrier)
    before, start = _cpu_s(), time.perf_counter()
    for _ in range(job.passes):
        for batch in batches:
            reader.read(batch)
    part = Part(start, time.perf_counter(), _cpu_s() - before)
    checksums = reader.get_checksums(0)
    wrong = [
        index
        for index, record in zip(batches[0], checked, strict=True)
        if zlib.crc32(record) != checksums[index]
    ]
    # The other side waits for a part in any case.
    parts.put(part if not wrong else Part(0, -1, 0))


def _batches(job: Job, record_count: int) -> list[list[int]]:
    order = list(range(record_count))
    if not job.in_order:
        random.Random(job.size).shuffle(order)
    order = order[: job.count]
    return [order[first : first + job.batch] for first in range(0, len(order), job.batch)]


def _set_pages(job: Job, number: int, barrier: Barrier) -> None:
    barrier.wait()
    if number == 0:
        if job.state == EVICTED:
            page_cache.forget(Path(job.place))
        else:
            page_cache.fill([Path(job.place)])
    barrier.wait()


def _load(job: Job, library: Any) -> list[Part]:
    """Measure a DataLoader's epoch from its second batch on: workers take seconds to start."""
    torch = importlib.import_module(f"{library.__name__}.torch")

    class FirstBytes(torch.Dataset):  # type: ignore[name-defined, misc]
        def process(self, indices: list[int], data: list[Any]) -> list[int]:
            return [int(record[0]) + int(record[-1]) for record in data]

    page_cache.fill([Path(job.place)])
    loader = torch.DataLoader(
        FirstBytes(job.place), batch_size=job.batch, shuffle=True, num_workers=job.processes
    )
    batches = iter(loader)
    next(batches)
    before, start = _children_cpu_s(), time.perf_counter()
    count = sum(len(batch) for batch in batches)
    end = time.perf_counter()
    if count + job.batch != job.count:
        return [Part(0, -1, 0)]
    del batches, loader  # ends the workers, so that their time is known
    return [Part(start, end, _children_cpu_s() - before)]


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime + _cpu_s()


def main(text: str) -> None:
    job = Job(**json.loads(text))
    library = importlib.import_module(job.library)
    parts = {READ: _read, WRITE: _write, LOAD: _load}[job.task](job, library)
    if any(part.end < part.start for part in parts):
        sys.exit(f"{job.library} reads other records than were written")
    seconds = max(part.end for part in parts) - min(part.start for part in parts)
    print(json.dumps({"seconds": seconds, "cpu_s": sum(part.cpu_s for part in parts)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
