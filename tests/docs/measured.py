"""The figures that documents state, each with the place where it was measured.

stated() has sentences of documents with a field for each figure and, in the same order, the
values of the published results. The figures of DECIDED come from a page of docs/decisions.
Those of NOT_MEASURED look like measured ones, but were set, assumed or calculated.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import epoch, mounting, prefetching, report
from benchmarks.contenders import EROFS, FOLDER, HINTS, NATIVE, PYFUSE3, SQUASHFS, SQUASHFUSE, URING
from benchmarks.figure import Comparison, Figure
from tests.checkout import CHECKOUT

LARGE, SMALL = "20,000 files of 110 KB", "100,000 files of 4.5 KB"
LARGE_EPOCH, SMALL_EPOCH = "6,000 files of 110 KB", "50,000 files of 4.5 KB"


@functools.cache
def results() -> report.Results:
    published = CHECKOUT / "docs" / "benchmarks" / "results.json"
    return report.from_json(published.read_text(encoding="utf-8"))


def comparison(part: str, name: str, data: str = "") -> Comparison:
    """Return the only comparison of this name whose data begins with `data`."""
    found = [
        each
        for each in results()[part].findings.comparisons
        if each.name == name and each.data.startswith(data)
    ]
    assert len(found) == 1, (part, name, data)
    return found[0]


def median(part: str, name: str, contender: str, data: str = "") -> float:
    found = comparison(part, name, data).median(contender)
    assert found is not None
    return found


def ratio(part: str, name: str, dividend: str, divisor: str, data: str = "") -> float:
    found = comparison(part, name, data).ratio(dividend, divisor)
    assert found is not None
    return found


def epochs(*contenders: str, name: str = prefetching.SHUFFLED) -> tuple[float, ...]:
    """Return the files a second from the slow disk."""
    return tuple(median("prefetching", name, each) for each in contenders)


def first_epoch(data: str, *contenders: str) -> tuple[float, ...]:
    """Return the files a second from the slow disk: listed before, and without hints."""
    return tuple(median("epoch", epoch.LISTED, each, data) for each in contenders)


def touch(data: str, *contenders: str, name: str = mounting.FIRST) -> tuple[float, ...]:
    """Return the microseconds a file."""
    return tuple(median("mounting", name, each, data) for each in contenders)


def figure(name: str) -> Figure:
    """Return the only figure whose name begins with `name`."""
    everything = (each for part in results().values() for each in part.findings.figures)
    found = [each for each in everything if each.name.startswith(name)]
    assert len(found) == 1, (name, found)
    return found[0]


def value(name: str) -> float:
    found = figure(name).value
    assert found is not None
    return found


def sample(name: str, *keys: str) -> tuple[float, ...]:
    return tuple(statistics.median(figure(name).samples[key]) for key in keys)


@dataclass(frozen=True)
class Stated:
    text: str
    figures: tuple[float, ...]

    def __str__(self) -> str:
        return self.text.format(*self.figures)


def stated() -> dict[str, list[Stated]]:
    tables = {
        "README.md": _readme(),
        "docs/architecture.md": _architecture(),
        "docs/benchmarks/README.md": _benchmarks(),
        "docs/cluster.md": _cluster(),
        "docs/operating.md": _operating(),
        "docs/training.md": _training(),
        "docs/tfrecord.md": _tfrecord(),
        "docs/usage.md": _usage(),
    }
    return {
        document: [Stated(text, figures) for text, figures in table]
        for document, table in tables.items()
    }


Table = Iterator[tuple[str, tuple[float, ...]]]


def _readme() -> Table:
    ours, erofs, squashfuse = first_epoch(LARGE_EPOCH, NATIVE, EROFS, SQUASHFUSE)
    yield (
        "runs **{} times as fast** as from EROFS and {} times as fast as from squashfuse",
        (int(ours / erofs), int(ours / squashfuse)),
    )
    yield (
        "{:,.0f} files/s of 110 KB (EROFS {:,.0f}, squashfuse_ll {:.0f}), ",
        (ours, erofs, squashfuse),
    )
    yield (
        "{:,.0f} of 4.5 KB ({:,.0f}, {:,.0f})",
        first_epoch(SMALL_EPOCH, NATIVE, EROFS, SQUASHFUSE),
    )
    again = ratio("prefetching", prefetching.AGAIN, NATIVE, FOLDER)
    yield "from the page cache, at {:.2f} of a plain directory", (again,)
    yield (
        "A pack of a million files in the page cache is mounted and listed in {:.2f} s",
        sample("pack of 1,000,000 files, page-cached: mount and first ls, above", "own"),
    )
    private = "pack of 10,000,000 files, the worker's private memory after"
    yield (
        "ten million files has {:.0f} to {:.0f} MB of private memory",
        (value(f"{private} mounting and ls"), value(f"{private} find over all")),
    )
    yield (
        "takes {:.2f} times as long as with EROFS by one reader, and {:.2f} times by four",
        tuple(
            value(f"{SMALL_EPOCH}, page cache, {epoch.EPOCH.format(*readers)}, {NATIVE} by")
            for readers in ((1, ""), (4, "s"))
        ),
    )


def _operating() -> Table:
    yield "{:,.0f} files/s instead of {:,.0f} at 1 ms a read", epochs(HINTS, NATIVE)


def _training() -> Table:
    yield "| plain readers of a mount | {:,.0f} files/s | {:,.0f} files/s |", epochs(HINTS, NATIVE)
    yield (
        "`PrefetchSampler` | {:,.0f} files/s | {:,.0f} files/s |",
        epochs(HINTS, NATIVE, name=prefetching.LOADER),
    )
    yield (
        "EROFS, squashfs, squashfuse_ll, a plain directory | | "
        "{:,.0f}; {:,.0f}; {:,.0f}; {:,.0f} files/s |",
        epochs(EROFS, SQUASHFS, SQUASHFUSE, FOLDER),
    )
    yield (
        "the machine's own disk | {:,.0f} files/s | {:,.0f} files/s |",
        epochs(HINTS, NATIVE, name=prefetching.OWN_DISK),
    )
    in_order = epochs(NATIVE, name=prefetching.IN_ORDER)
    yield "| one reader in record order | | {:,.0f} files/s |", in_order
    paced = epochs(HINTS, FOLDER, name=prefetching.PACED)
    without_read = epochs(HINTS, name=prefetching.WITHOUT_READ)
    yield (
        "waits {:.0f} µs for it with hints; in the same run a plain directory in the page cache "
        "took {:.0f} µs. {:.0f} of 100 such files",
        (*paced, *without_read),
    )


def _architecture() -> Table:
    lookups = touch(SMALL, PYFUSE3, NATIVE, name=mounting.STAT)
    yield "a lookup takes {:.0f} µs, and {:.0f} µs by `native`", lookups


def _usage() -> Table:
    ratios = [
        ratio("mounting", mounting.FIRST, ours, SQUASHFUSE, data)
        for ours in (NATIVE, URING)
        for data in (SMALL, LARGE)
    ]
    yield (
        "takes {:.2f} to {:.2f} of the time of `squashfuse_ll`, which checks nothing, and "
        "{:.2f} to {:.2f} over io_uring",
        tuple(ratios),
    )


def _tfrecord() -> Table:
    yield "`parse_example` is {:.1f} times as fast as", (value("8 scalar features"),)


def _cluster() -> Table:
    # Calculated for a petabyte.
    minutes = value("plan of 100,000,000 files in 20,000 shards, synthetic")
    files, file_us = 1e15 / 110_000, minutes * 60 / 100
    packing_s = median("packing", "packing", "ffrfs pack", LARGE)
    core = 20_000 * 110_000 / packing_s / 2 / 1e9
    yield (
        "{:.1f} µs and 16 bytes a file for the plan; {:.2f} GB/s a core for packing",
        (file_us, core),
    )
    hours = files * file_us / 1e6 / 3600
    yield (
        "| {:.1f} µs a file; 145 GB of plan, as much of temporary file | {:.1f} h |",
        (*(file_us, hours),),
    )
    yield "1,600 cores \u00d7 {:.2f} GB/s | {:.1f} h |", (core, 1e6 / (1600 * core) / 3600)


def _benchmarks() -> Table:
    yield "({:.1f} times as fast as the loop in the published run)", (value("FileReader.read"),)
    yield "number of readers: {:.0f} and {:.0f} files/s", epochs(FOLDER, SQUASHFS)


# For each document: texts, each with the page of docs/decisions that has its figures.
DECIDED = {
    "docs/operating.md": [
        ("took 55 to 76 µs with it and 31 µs without", "028-transports.md"),
        ("takes 31 µs either way", "028-transports.md"),
    ],
    "docs/training.md": [("3 ms of CPU time", "043-training-without-a-line.md")],
    "docs/with-other-libraries.md": [
        ("in 4.0 s (the plain directory: 6.2 s)", "042-adapters.md"),
        ("takes 22 s (25 s)", "042-adapters.md"),
    ],
    "docs/benchmarks/README.md": [
        ("takes 29 to 31 µs over io_uring and 77 µs over /dev/fuse", "028-transports.md"),
        ("takes 0.25 s to load and connect, and a task 2.6 ms", "033-many-workers.md"),
    ],
}
NOT_MEASURED = {
    "README.md": ["a disk of 1 ms a read", "a disk with 1 ms latency"],
    "docs/architecture.md": ["size every 2.5 s from", "(replaced every 15 s,"],
    "docs/benchmarks/README.md": [
        "drawn at random, verified, 100 times",
        "2 ms of work a file",
        "delays all bytes by 20 ms each way",
        "Python, which adds about 2 µs a file",
        "From the disk of 1 ms, reading is timed with and without",
        "100 files 20 times",
    ],
    "docs/benchmarks/dlio.md": ["64 samples every 40 ms"],
    "docs/cluster.md": [
        "25 Gbit/s a node",
        "reads and writes 200 GB/s, and opens or stats 200,000 files a second",
        "200,000 a second | 12.6 h |",
        "| 200 GB/s | 2.8 h |",
        "100 \u00d7 3.1 GB/s | 0.9 h |",
        "takes 1.4 h, at 200 GB/s",
    ],
    "docs/operating.md": ["from 4.096 µs to 17.18 s"],
    "docs/training.md": ["spends 2 ms on each file"],
}
