"""Records beside ffrecord, the library that the format comes from (original.py).

It has ffrecord's own benchmarks, by their description: records of 1000 bytes written, and read
in order in batches of 1 to 64; a DataLoader's epoch. It adds batches of 64 random records of 4 KiB
to 1 MiB by one and two processes, from cached and from evicted files, and larger records written.
Every row is a program of its own for each library and each round (records.py).
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from benchmarks import measure, original
from benchmarks.figure import Comparison, Figure, Findings
from benchmarks.original import LIBRARY, ORIGINAL
from benchmarks.plan import Plan
from benchmarks.records import CACHED, EVICTED, LOAD, READ, WRITE, Job
from ffrfs import FileReader

TIMEOUT_S = 600
CACHED_PASSES = 4  # over files that take milliseconds a pass
LOADER_ROUNDS = 3  # at most so many times the usual rounds, until the ratios agree
LOADER_SPREAD = 0.1
NOT_MEASURED = "not measured: "


@dataclass(frozen=True)
class Row:
    data: str
    name: str
    job: Job


def run(plan: Plan) -> Findings:
    work = plan.folder / "reference"
    work.mkdir()
    missing = original.why_missing()
    libraries = [LIBRARY] if missing else [LIBRARY, ORIGINAL]
    comparisons = []
    try:
        for row in _rows(plan, work):
            if row.job.task != WRITE:
                _make(row.job)
            else:
                _check_written(row.job, libraries)
            if row.job.task != LOAD or find_spec("torch"):
                comparisons += _compare(plan, row, libraries, missing)
    finally:
        shutil.rmtree(work)
    return Findings(_figures(comparisons, missing), comparisons)


def _rows(plan: Plan, work: Path) -> Iterator[Row]:
    small = _job(work, plan.original_size, plan.original_count)
    data = _label(small)
    yield Row(data, "written until close", replace(small, task=WRITE, place=f"{work}/new.ffr"))
    for batch in (1, 8, 64):
        job = replace(small, batch=batch, in_order=True, passes=CACHED_PASSES)
        yield Row(data, f"read in order, batches of {batch}", job)
    for size, count in plan.record_sizes.items():
        job = _job(work, size, count)
        data = _label(job)
        yield Row(data, "written until close", replace(job, task=WRITE, place=f"{work}/new.ffr"))
        for state in (CACHED, EVICTED):
            passes = CACHED_PASSES if state == CACHED else 1
            many = replace(job, batch=64, state=state, passes=passes)
            for processes in (1, 2):
                name = f"random batches of 64, {state}, {_plural(processes, 'process')}"
                yield Row(data, name, replace(many, processes=processes))
        twice = replace(job, batch=64, state=EVICTED, processes=2, passes=2)
        yield Row(data, f"random batches of 64, {EVICTED}, 2 processes, two epochs", twice)
        loaded = replace(job, task=LOAD, batch=64, processes=2)
        yield Row(data, "DataLoader, batches of 64, cached, 2 workers", loaded)


def _job(work: Path, size: int, count: int) -> Job:
    return Job(LIBRARY, READ, f"{work}/{size}.ffr", size, count)


def _label(job: Job) -> str:
    size = f"{job.size >> 10} KiB" if job.size % 1024 == 0 else f"{job.size} bytes"
    return f"{job.count:,} records of {size}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 'es'}"


def _make(job: Job) -> None:
    if not os.path.exists(job.place):
        _run(replace(job, task=WRITE))


def _check_written(job: Job, libraries: list[str]) -> None:
    """Check that all libraries write the same bytes, and that these are correct."""
    files = [Path(job.place).with_name(f"{library}.ffr") for library in libraries]
    for library, file in zip(libraries, files, strict=True):
        _run(replace(job, library=library, place=str(file)))
    with FileReader(files[0]) as reader:
        reader.validate()
    if not all(filecmp.cmp(files[0], file, shallow=False) for file in files):
        raise RuntimeError(f"{' and '.join(libraries)} write different files")
    for file in files:
        file.unlink()


def _compare(plan: Plan, row: Row, libraries: list[str], missing: str) -> list[Comparison]:
    outcomes: dict[str, list[tuple[float, float]]] = {library: [] for library in libraries}
    rounds = plan.rounds
    while rounds:
        one = {library: partial(_outcome, row.job, library) for library in libraries}
        for library, found in measure.interleave(one, rounds).items():
            outcomes[library] += found
        rounds = 2 if row.job.task == LOAD and _says_little(plan, outcomes) else 0
    absent = {ORIGINAL: missing} if missing else {}
    wall = {name: [seconds for seconds, _ in found] for name, found in outcomes.items()}
    cpu = {name: [seconds for _, seconds in found] for name, found in outcomes.items()}
    return [
        Comparison(row.data, row.name, "s", wall, absent),
        Comparison(row.data, f"{row.name}: CPU", "s", cpu, absent),
    ]


def _says_little(plan: Plan, outcomes: dict[str, list[tuple[float, float]]]) -> bool:
    """Return whether the ratios' middle half is wide, and more rounds are allowed."""
    if ORIGINAL not in outcomes or len(outcomes[LIBRARY]) >= plan.rounds * LOADER_ROUNDS:
        return False
    pairs = zip(outcomes[ORIGINAL], outcomes[LIBRARY], strict=True)
    ratios = [theirs / ours for (theirs, _), (ours, _) in pairs]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return high - low > LOADER_SPREAD * middle


def _outcome(job: Job, library: str) -> tuple[float, float]:
    """Return seconds, and seconds of CPU."""
    if job.task == WRITE:
        Path(job.place).unlink(missing_ok=True)
        os.sync()  # the time must not include pending writes of others
    try:
        return _run(replace(job, library=library))
    finally:
        if job.task == WRITE:
            Path(job.place).unlink(missing_ok=True)


def _run(job: Job) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks.records", job.as_json()]
    environment = original.environment() if job.library == ORIGINAL else None
    root = Path(__file__).resolve().parent.parent
    found = json.loads(measure.run(command, TIMEOUT_S, env=environment, cwd=root))
    return found["seconds"], found["cpu_s"]


def _figures(comparisons: list[Comparison], missing: str) -> list[Figure]:
    worst, median = (f"{LIBRARY} by {ORIGINAL}, {what}" for what in ("the worst row", "all rows"))
    if missing:
        note = f"{NOT_MEASURED}{ORIGINAL}: {missing}"
        return [
            Figure(worst, None, "x", at_least=1, note=note),
            Figure(median, None, "x", at_least=2, note=note),
        ]
    rows = [found for found in comparisons if not found.name.endswith(": CPU")]
    ratios = {f"{found.data}, {found.name}": found.ratio(ORIGINAL, LIBRARY) for found in rows}
    speeds = {name: ratio for name, ratio in ratios.items() if ratio is not None}
    slowest = min(speeds, key=speeds.__getitem__)
    return [
        Figure(worst, speeds[slowest], "x", at_least=1, note=slowest),
        Figure(
            median,
            statistics.median(speeds.values()),
            "x",
            at_least=2,
            note=f"the median of {len(speeds)}",
        ),
    ]
