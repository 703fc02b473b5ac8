"""A disk that takes a millisecond for each read: reading with and without hints.

All packed files lie on slow_disk.c, mounted again for each measurement: nothing is cached, and
a check shows that as many bytes come from the disk as the files have. `ffrfs prefetch` gives
hints to the native engine, in a process beside the readers and only from their beginning on
(hints.py), so that the measured time includes all reading ahead.

The yardstick is aio_batches.c: one process that knows the order and reads the packed file in
batches, without a mount of ours, and without a checksum. Files that were pushed ahead of their
reader are compared with the plain directory, page-cached.

The last comparison is on the machine's own disk, after the packed file's pages were dropped.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import contenders, measure, memory, mounting, page_cache, slow_disk
from benchmarks.contenders import (
    AIO,
    EROFS,
    FOLDER,
    HINTS,
    NATIVE,
    RATARMOUNT,
    SQUASHFS,
    SQUASHFUSE,
    served_by,
)
from benchmarks.figure import Comparison, Figure, Findings
from benchmarks.plan import Plan
from benchmarks.reader import AS_LISTED, HINTED, PAUSE_S
from benchmarks.slow_files import Order, SlowFiles
from ffrfs.mount.config.settings import CACHE_MB_DEFAULT

TIMEOUT_S = 300
AIO_SOURCE = Path(__file__).with_name("aio_batches.c")
READERS, WORKERS = 4, 4
Values = dict[str, float]  # the results of a session, by the name of the comparison
Missing = dict[str, dict[str, str]]  # by comparison: contenders, and why they have no samples
SHUFFLED, IN_ORDER = f"shuffled, {READERS} readers", "record order, 1 reader"
AGAIN = f"{SHUFFLED}, second epoch"
READS = f"{SHUFFLED}: READs of the disk"
BYTES = f"{SHUFFLED}: bytes from the disk"
DEEPEST = f"{SHUFFLED}: most READs at once"
MEMORY = f"{SHUFFLED}: memory added to the daemon, peak"
PACED = f"listed, 1 reader, {PAUSE_S * 1000:g} ms of work a file: in open, read, close"
WITHOUT_READ = "the same: files without a READ, at least"
LOADER = f"torch DataLoader, {WORKERS} workers"
OWN_DISK = f"{SHUFFLED}, uncached"
RATE = "files/s"
ON_SLOW, ON_OWN = f"disk of {slow_disk.LATENCY_US / 1000:g} ms", "own disk"
PEERS = (EROFS, SQUASHFS, SQUASHFUSE)


@dataclass(frozen=True)
class Measured:
    disk: str
    unit: str
    names: tuple[str, ...]  # the contenders that take part
    is_whole: bool = False  # reads all files, not a part of them


EPOCHS = (FOLDER, *PEERS, RATARMOUNT, NATIVE, HINTS)
ALL = (*EPOCHS, AIO)
# In the order of the table.
COMPARISONS = {
    SHUFFLED: Measured(ON_SLOW, RATE, ALL, is_whole=True),
    AGAIN: Measured(ON_SLOW, RATE, EPOCHS, is_whole=True),
    READS: Measured(ON_SLOW, "a file", ALL, is_whole=True),
    BYTES: Measured(ON_SLOW, "x the data", ALL, is_whole=True),
    DEEPEST: Measured(ON_SLOW, "", ALL, is_whole=True),
    MEMORY: Measured(ON_SLOW, "MB", (NATIVE, HINTS), is_whole=True),
    IN_ORDER: Measured(ON_SLOW, RATE, (*PEERS, NATIVE)),
    PACED: Measured(ON_SLOW, "µs a file", (FOLDER, HINTS)),
    WITHOUT_READ: Measured(ON_SLOW, "%", (HINTS,)),
    LOADER: Measured(ON_SLOW, RATE, (NATIVE, HINTS)),
    OWN_DISK: Measured(ON_OWN, RATE, (NATIVE, HINTS)),
}
PLOTTED = (SHUFFLED, AGAIN)


def run(plan: Plan) -> Findings:
    work = plan.folder / "prefetching"
    work.mkdir()
    try:
        files = SlowFiles.make(plan, work)
        missing = _missing(plan, files)
        samples = _sessions(plan, files, missing)
    finally:
        shutil.rmtree(work)
    kind = f"files of {plan.large_size / 1000:g} KB"
    amounts = {
        True: f"{plan.slow_count:,} {kind}",
        False: f"{plan.slow_sample:,} of {plan.slow_count:,} {kind}",
    }
    found = {
        name: Comparison(
            f"{amounts[about.is_whole]}, {about.disk}",
            name,
            about.unit,
            samples.get(name, {}),
            {each: why for each, why in missing[name].items() if each in about.names},
        )
        for name, about in COMPARISONS.items()
    }
    return Findings(_figures(found), list(found.values()))


def _figures(found: dict[str, Comparison]) -> list[Figure]:
    cache_mb = CACHE_MB_DEFAULT * 2**20 / 1e6
    return [
        found[SHUFFLED].versus(HINTS, SQUASHFUSE, at_least=8),
        found[SHUFFLED].versus(HINTS, EROFS, at_least=8),
        found[SHUFFLED].versus(AIO, HINTS, at_most=2),
        found[SHUFFLED].versus(NATIVE, SQUASHFUSE, at_least=2),
        found[SHUFFLED].versus(NATIVE, EROFS, at_least=2),
        found[SHUFFLED].versus(HINTS, SQUASHFS, at_least=8),
        found[SHUFFLED].versus(HINTS, FOLDER, at_least=4),
        found[AGAIN].versus(NATIVE, FOLDER, at_least=0.9),
        found[IN_ORDER].versus(NATIVE, SQUASHFUSE, at_least=4),
        found[PACED].versus(HINTS, FOLDER, at_most=1.5),
        found[WITHOUT_READ].of(HINTS, "%", at_least=95),
        found[LOADER].versus(HINTS, NATIVE, at_least=2),
        found[OWN_DISK].versus(HINTS, NATIVE, at_least=1.3),
        found[MEMORY].of(HINTS, "x --cache-mb", cache_mb, at_most=1),
    ]


def _missing(plan: Plan, files: SlowFiles) -> Missing:
    reasons = {
        name: plan.field.missing.get(served_by(name)) or _why_not(partial(_try, files, name))
        for name in ALL
    }
    reasons = {name: reason for name, reason in reasons.items() if reason}
    missing = dict.fromkeys(COMPARISONS, reasons)
    missing[PACED] = {name: why for name, why in reasons.items() if name != FOLDER}  # no image
    if not importlib.util.find_spec("torch"):
        missing[LOADER] = dict.fromkeys((NATIVE, HINTS), "there is no torch")
    elif HINTS not in reasons:
        program = [sys.executable, "-c", "from ffrfs.torch import PrefetchSampler"]
        reason = _why_not(lambda: measure.run(program, TIMEOUT_S))
        missing[LOADER] = reasons | ({HINTS: reason} if reason else {})
    return missing


def _why_not(action: Callable[[], object]) -> str:
    """Return why the action fails; "" if it does not."""
    try:
        action()
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return str(error).splitlines()[-1]
    return ""


def _try(files: SlowFiles, name: str) -> None:
    """Read one file by this contender, from the slow disk."""
    if not files.disk.program.exists():
        slow_disk.compile_program(files.disk.program)
    if name == AIO:
        program = _aio_program(files)
        measure.run(["cc", "-O2", "-o", program, AIO_SOURCE, "-laio"], TIMEOUT_S)
        return
    with files.mounted(name) as mount:
        listing = files.shuffled.listing
        mounting.read_passes(mount.root, listing, AS_LISTED, 1, 1, _kind(name, "read"))


def _aio_program(files: SlowFiles) -> Path:
    return files.disk.program.with_name("aio_batches")


def _kind(name: str, kind: str) -> str:
    """Return the name that reader.py has for this pass by this contender."""
    return f"{HINTED}{kind}" if name == HINTS else kind


def _sessions(plan: Plan, files: SlowFiles, missing: Missing) -> dict[str, measure.Samples[float]]:
    """Return the samples of each contender, by comparison."""
    sessions: dict[str, Callable[[str], Values]] = {
        SHUFFLED: partial(_read_shuffled, files),
        IN_ORDER: partial(_read_in_order, files),
        PACED: partial(_read_paced, files),
        LOADER: partial(_read_by_torch, files),
        OWN_DISK: partial(_read_own_disk, files),
    }
    samples: dict[str, measure.Samples[float]] = {}
    for comparison, session in sessions.items():
        able = [name for name in COMPARISONS[comparison].names if name not in missing[comparison]]
        if not able:
            continue
        rounds = measure.interleave(
            {name: partial(session, name) for name in able}, plan.long_rounds
        )
        for name, outcomes in rounds.items():
            for key in outcomes[0]:
                samples.setdefault(key, {})[name] = [outcome[key] for outcome in outcomes]
    return samples


def _read_shuffled(files: SlowFiles, name: str) -> Values:
    order = files.whole
    if name == AIO:
        return _read_in_batches(files, order)
    with files.mounted(name) as mount:
        begin_bytes = memory.peak_bytes(mount.daemon) if mount.daemon else 0
        rate = _rate(name, mount.root, order, READERS)
        values = {SHUFFLED: rate, **_counted(files, order, name)}
        if mount.daemon and name in COMPARISONS[MEMORY].names:
            values[MEMORY] = (memory.peak_bytes(mount.daemon) - begin_bytes) / 1e6
        values[AGAIN] = _rate(served_by(name), mount.root, order, READERS)
        _pass(mount.root, order, READERS, "check")
    return values


def _read_in_batches(files: SlowFiles, order: Order) -> Values:
    extents = order.listing.with_suffix(".extents")
    files.write_extents(order, extents)
    with files.slow(AIO) as stored:
        program, depth = _aio_program(files), str(slow_disk.DEPTH)
        found = json.loads(measure.run([program, stored, extents, depth], TIMEOUT_S))
        if found["count"] != order.count:
            raise RuntimeError(f"{AIO_SOURCE.name} counts {found['count']} files")
        return {SHUFFLED: order.count / found["seconds"], **_counted(files, order, AIO)}


def _counted(files: SlowFiles, order: Order, name: str) -> Values:
    """Return what the slow disk has counted since it was mounted."""
    counts = files.disk.counts()
    if counts.size_bytes < order.size_bytes:
        raise RuntimeError(
            f"{name}: {counts.size_bytes} bytes came from the slow disk for files of "
            f"{order.size_bytes}: some were cached before"
        )
    return {
        READS: counts.reads / order.count,
        BYTES: counts.size_bytes / order.size_bytes,
        DEEPEST: counts.deepest,
    }


def _read_in_order(files: SlowFiles, name: str) -> Values:
    with files.mounted(name) as mount:
        rate = _rate(name, mount.root, files.in_order, 1)
        _counted(files, files.in_order, name)
        _pass(mount.root, files.in_order, READERS, "check")
    return {IN_ORDER: rate}


def _read_paced(files: SlowFiles, name: str) -> Values:
    order = files.shuffled
    if name == FOLDER:
        page_cache.fill(files.source.root / file for file in order.names)
        found = _pass(files.source.root, order, 1, "paced")
        return {PACED: found["busy_seconds"] / order.count * 1e6}
    with files.mounted(name) as mount:
        # So that the kernel knows all inodes, and accepts files that are pushed.
        walk = ["find", str(mount.root), "-size", "+0"]
        measure.run(walk, TIMEOUT_S, stdout=subprocess.DEVNULL)
        found = _pass(mount.root, order, 1, _kind(name, "paced"))
        stats = measure.run_python(["-m", "ffrfs", "stats", "--json", mount.root], TIMEOUT_S)
        _pass(mount.root, order, READERS, "check")
    read_count = stats["requests"]["read"]["count"]
    return {
        PACED: found["busy_seconds"] / order.count * 1e6,
        WITHOUT_READ: max(0, 1 - read_count / order.count) * 100,
    }


def _read_by_torch(files: SlowFiles, name: str) -> Values:
    order = files.shuffled
    with files.mounted(name) as mount:
        program = ["-m", "benchmarks.loader", str(mount.root), str(order.listing)]
        amounts = [str(Plan.batch_size), str(WORKERS)]
        mode = ["hints"] if name == HINTS else []
        found = measure.run_python([*program, *amounts, *mode], TIMEOUT_S)
    if found["wrong"]:
        raise RuntimeError(f"{found['wrong']} files were read wrong by benchmarks.loader")
    return {LOADER: order.count / found["seconds"]}


def _read_own_disk(files: SlowFiles, name: str) -> Values:
    order, stored = files.shuffled, files.stored(name)
    page_cache.forget(stored)
    with contenders.mounted(served_by(name), stored, files.mountpoint) as mount:
        rate = _rate(name, mount.root, order, READERS)
        _pass(mount.root, order, READERS, "check")
    return {OWN_DISK: rate}


def _rate(name: str, root: Path, order: Order, readers: int) -> float:
    """Return the files a second of all readers together."""
    return order.count / float(_pass(root, order, readers, _kind(name, "read"))["seconds"][0])


def _pass(root: Path, order: Order, readers: int, kind: str) -> dict[str, Any]:
    return mounting.read_passes(root, order.listing, AS_LISTED, order.count, readers, kind)
