"""The program that reads a tree: open, fstat, read all, close, in random order.

    python -m benchmarks.reader ROOT LISTING SEED COUNT READERS PASS ...

LISTING is JSON: {"names": [...], "checksums": [CRC-32, ...]}. COUNT files are drawn from it or,
with SEED `-`, taken in its order. READERS processes take turns at these files, and begin each
pass together. Every pass has the same order. A PASS is one of

    read     timed
    stat     attributes of each file by its name, and no byte; timed
    paced    after each file the reader does something else for 2 ms
    check    checksums are compared, and page cache is counted

With `hinted-` before a PASS, hints.py tells the mount at ROOT the files to be read, from the
moment when the readers begin. Prints JSON: seconds of each pass, from the first reader's
start to the last one's end; the readers' own CPU seconds of each; the seconds that all readers
spent in open, read and close of paced files; the number of wrong files; the bytes of page
cache that hold the files, if the kernel can tell.

It is a process of its own, so that its parent can end it if the mount hangs. Python makes the
system calls, which adds about 2 µs a file, the same for every contender.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import sys
import time
import zlib
from dataclasses import dataclass, field
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from threading import BrokenBarrierError

from benchmarks import hints, page_cache

File = tuple[bytes, int]  # path, CRC-32
BUFFER_BYTES = 1 << 20
PAUSE_S = 0.002
AS_LISTED = "-"
HINTED = "hinted-"


@dataclass
class Report:
    """The report of one reader; times are those of a clock that all processes share."""

    starts: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    busy_s: float = 0
    wrong: int = 0
    cached_bytes: int = 0
    failure: str = "it has not ended"


def read_files(files: list[File], buffer: bytearray) -> None:
    buffers = [buffer]
    for path, _ in files:
        read_file(path, buffers)


def read_file(path: bytes, buffers: list[bytearray]) -> None:
    fd = os.open(path, os.O_RDONLY)
    size = os.fstat(fd).st_size
    count = os.readv(fd, buffers)
    os.close(fd)
    if count != size:
        raise RuntimeError(f"{os.fsdecode(path)}: {count} of {size} bytes")


def read_paced(files: list[File], buffer: bytearray, report: Report) -> None:
    buffers = [buffer]
    for path, _ in files:
        start = time.perf_counter()
        read_file(path, buffers)
        report.busy_s += time.perf_counter() - start
        time.sleep(PAUSE_S)


def check_files(files: list[File], buffer: bytearray, report: Report) -> None:
    """Check files, and count page cache before closing: if a mount lets the kernel keep
    nothing, the next open drops the pages that this read has left.
    """
    countable = not page_cache.why_not_count()
    view = memoryview(buffer)
    for path, checksum in files:
        fd = os.open(path, os.O_RDONLY)
        report.wrong += zlib.crc32(view[: os.readv(fd, [buffer])]) != checksum
        report.cached_bytes += page_cache.cached_bytes(fd) if countable else 0
        os.close(fd)


def read_share(
    files: list[File], passes: list[str], together: Barrier, reports: SimpleQueue[Report]
) -> None:
    """Do all passes of one reader."""
    buffer = bytearray(BUFFER_BYTES)
    report = Report()
    try:
        for name in passes:
            together.wait()
            report.starts.append(time.perf_counter())
            cpu_s = time.process_time()
            kind = name.removeprefix(HINTED)
            if kind == "check":
                check_files(files, buffer, report)
            elif kind == "stat":
                for path, _ in files:
                    os.stat(path)
            elif kind == "paced":
                read_paced(files, buffer, report)
            else:
                read_files(files, buffer)
            report.ends.append(time.perf_counter())
            report.cpu_s.append(time.process_time() - cpu_s)
        report.failure = ""
    except BaseException as error:
        report.failure = f"{type(error).__name__}: {error}"
        together.abort()
        raise
    finally:
        reports.put(report)


def read_together(root: str, files: list[File], readers: int, passes: list[str]) -> list[Report]:
    fork = multiprocessing.get_context("fork")
    together, reports = fork.Barrier(readers + 1), fork.SimpleQueue()
    children = [
        fork.Process(target=read_share, args=(files[index::readers], passes, together, reports))
        for index in range(readers)
    ]
    for child in children:
        child.start()
    with contextlib.suppress(BrokenBarrierError):  # the report of its breaker says why
        begin_passes(os.fsencode(root), files, passes, together)
    found = [reports.get() for _ in children]
    for child in children:
        child.join()
    return found


def begin_passes(root: bytes, files: list[File], passes: list[str], together: Barrier) -> None:
    """Let the readers begin each pass, and give the pass its hints."""
    try:
        for name in passes:
            if not name.startswith(HINTED):
                together.wait()
                continue
            order = b"".join(path[len(root) + 1 :] + b"\n" for path, _ in files)
            with hints.listening(root) as command:
                together.wait()
                command.write(order)
    except BaseException:
        together.abort()
        raise


def main(root: str, listing: str, seed: str, *numbers_and_passes: str) -> None:
    count, readers = map(int, numbers_and_passes[:2])
    names, checksums = json.loads(Path(listing).read_text()).values()
    files = list(zip((os.fsencode(f"{root}/{name}") for name in names), checksums, strict=True))
    if seed != AS_LISTED:
        random.Random(int(seed)).shuffle(files)
    os.stat(root)  # wait until the daemon answers
    try:
        reports = read_together(root, files[:count], readers, list(numbers_and_passes[2:]))
    except RuntimeError as error:  # from hints.py
        sys.exit(str(error))
    failures = [report.failure for report in reports if report.failure]
    if failures:
        sys.exit(f"{root}: {failures[0]}")
    starts = zip(*(report.starts for report in reports), strict=True)
    ends = zip(*(report.ends for report in reports), strict=True)
    found = {
        "seconds": [max(end) - min(start) for start, end in zip(starts, ends, strict=True)],
        "cpu_seconds": [sum(shares) for shares in zip(*(r.cpu_s for r in reports), strict=True)],
        "busy_seconds": sum(report.busy_s for report in reports),
        "wrong": sum(report.wrong for report in reports),
        "cached_bytes": sum(report.cached_bytes for report in reports),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
