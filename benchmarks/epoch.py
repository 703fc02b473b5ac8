"""Whole first epochs without a hint: every file once, shuffled.

From the page cache, which holds the packed file: listing and reading are timed together, since
a data set is listed before it is read; `ffrfs warm`, which comes before, is timed by itself. From
slow_disk.c, with nothing cached: with and without a listing before.

Then jobs to which the neighbours of a read are useless, beside the same mount with
`--read-around off`: one file in a hundred; a hundred files again and again, past the page cache;
a tenth of the files from the machine's own disk; a data set of ten times the memory of the
control group that holds all processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import (
    contenders,
    control_group,
    data,
    measure,
    memory,
    mounting,
    page_cache,
    slow_disk,
)
from benchmarks.contenders import ALONE, EROFS, NATIVE, SQUASHFUSE, URING, WARMED
from benchmarks.figure import Comparison, Figure, Findings
from benchmarks.mounts import Mount
from benchmarks.packers import FFRFS
from benchmarks.plan import Plan
from benchmarks.reader import AS_LISTED
from benchmarks.slow_disk import SlowDisk

TIMEOUT_S = 300
PROGRAM = "slow_disk"
CPU = "processor time of all processes, readers: {}"
EPOCH = "listing and first epoch, {} reader{}"
WARMING = "ffrfs warm, listing included"
LISTED, NOT_LISTED = "first epoch, 4 readers, listed before", "first epoch, 4 readers, not listed"
ONE_PERCENT, HOT = "1 % of the files", "100 files, 20 times"
TENTH, OWN_DISK = "a tenth of the files", "the machine's disk"
TENFOLD = "data of ten times the memory"
READERS = (1, 4)
ON_SLOW = f"disk of {slow_disk.LATENCY_US / 1000:g} ms"
HOT_FILES, HOT_PASSES = 100, 20
GROUP_BYTES_MIN = 250_000_000  # the group also holds daemon, worker and readers
Values = dict[str, float]
# The target ratios, by size of the files.
CACHED_TARGETS = {4_500: {1: 1.0, 4: 1.4, WARMED: 0.55}, 110_000: {1: 1.1, 4: 1.3, WARMED: 0.6}}
SLOW_TARGETS = {4_500: {NOT_LISTED: 2, LISTED: 3.5}, 110_000: {NOT_LISTED: 3.5, LISTED: 4}}


@dataclass(frozen=True)
class Files:
    """One data set, its packed files, and where they are mounted."""

    work: Path
    source: data.Folder
    listing: Path  # shuffled
    size: int
    disk: SlowDisk

    @classmethod
    def make(cls, work: Path, count: int, size: int) -> Files:
        for name in ("packed", "slow", "mnt"):
            (work / name).mkdir(parents=True)
        source = data.write_folder(work / "source", count, size)
        pairs = list(zip(source.names, source.checksums, strict=True))
        random.Random(count).shuffle(pairs)
        names, checksums = zip(*pairs, strict=True)
        listing = work / "shuffled.json"
        listing.write_text(json.dumps({"names": names, "checksums": checksums}))
        disk = SlowDisk(work.parent / PROGRAM, work / "packed", work / "slow")
        return cls(work, source, listing, size, disk)

    @property
    def count(self) -> int:
        return len(self.source.names)

    @property
    def title(self) -> str:
        return f"{self.count:,} files of {self.size / 1000:g} KB"

    def stored(self, name: str) -> Path:
        packer = contenders.PACKERS[contenders.served_by(name)]
        stored = contenders.store(packer, self.source.root, self.disk.folder)
        page_cache.fill([stored])
        return stored

    @contextlib.contextmanager
    def mounted(self, name: str, *, slow: bool = False) -> Iterator[Mount]:
        with contextlib.ExitStack() as stack:
            stored = self.stored(name)
            if slow:
                stored = stack.enter_context(self.disk.mounted()) / stored.name
            yield stack.enter_context(contenders.mounted(name, stored, self.work / "mnt"))

    def read(
        self, mount: Mount, readers: int, *passes: str, count: int = 0
    ) -> dict[str, list[float]]:
        amounts = (AS_LISTED, count or self.count, readers)
        return mounting.read_passes(mount.root, self.listing, *amounts, *(passes or ("read",)))


def run(plan: Plan) -> Findings:
    work = plan.folder / "epoch"
    work.mkdir()
    try:
        slow_disk.compile_program(work / PROGRAM)
        sets = [(plan.epoch_small, plan.small_size), (plan.epoch_large, plan.large_size)]
        findings = [
            _measure(plan, Files.make(work / str(size), count, size)) for count, size in sets
        ]
        tenfold = Files.make(work / "tenfold", 4 * plan.epoch_large, plan.large_size)
        findings.append(_tenfold(plan, tenfold))
    finally:
        shutil.rmtree(work)
    return Findings(
        [figure for each in findings for figure in each.figures],
        [comparison for each in findings for comparison in each.comparisons],
    )


def _measure(plan: Plan, files: Files) -> Findings:
    cached, slow = (EROFS, NATIVE, URING, WARMED), (EROFS, SQUASHFUSE, NATIVE, URING)
    title, from_disk = f"{files.title}, page cache", f"{files.title}, {ON_SLOW}"
    found = []
    for readers in READERS:
        found += _compare(plan, title, cached, partial(_cached, files, readers), plan.rounds)
    for listed in (True, False):
        found += _compare(plan, from_disk, slow, partial(_slow, files, listed), plan.long_rounds)
    wrong = partial(_wrong, files)
    found += _compare(plan, from_disk, (NATIVE, ALONE), wrong, plan.rounds)
    own_disk, tenth = f"{files.title}, {OWN_DISK}", partial(_tenth, files)
    found += _compare(plan, own_disk, (NATIVE, ALONE), tenth, plan.long_rounds)
    return Findings(list(_figures(files, {each.name: each for each in found})), found)


def _compare(
    plan: Plan, title: str, names: Sequence[str], session: Callable[[str], Values], rounds: int
) -> list[Comparison]:
    """Return a comparison for each value of a session."""
    reasons = {name: plan.field.missing.get(contenders.served_by(name), "") for name in names}
    missing = {name: reason for name, reason in reasons.items() if reason}
    able = {name: partial(session, name) for name in names if name not in missing}
    samples = measure.interleave(able, rounds)
    keys = dict.fromkeys(key for outcomes in samples.values() for key in outcomes[0])
    return [
        Comparison(
            title,
            key,
            _unit(key),
            {
                name: [outcome[key] for outcome in outcomes]
                for name, outcomes in samples.items()
                if key in outcomes[0]
            },
            missing,
        )
        for key in keys
    ]


def _unit(key: str) -> str:
    if key in (LISTED, NOT_LISTED):
        return "files/s"
    if key.endswith("bytes"):
        return "x the files"
    return "s" if key in (*_WRONG, TENTH, TENFOLD) else "µs a file"


def _figures(files: Files, found: dict[str, Comparison]) -> Iterator[Figure]:
    targets = CACHED_TARGETS.get(files.size, {})
    for readers in READERS:
        comparison = found[_epoch(readers)]
        for ours in (NATIVE, URING):
            yield comparison.versus(ours, EROFS, at_most=targets.get(readers))
    yield found[_epoch(1)].versus(WARMED, EROFS, at_most=targets.get(WARMED))
    if files.size < Plan.large_size:
        yield found[WARMING].of(WARMED, "µs a file", at_most=10)
        yield found[CPU.format(4)].of(NATIVE, "µs a file", at_most=25)
    for name, least in SLOW_TARGETS.get(files.size, {}).items():
        best = max((EROFS, SQUASHFUSE), key=lambda each: found[name].median(each) or 0)
        yield found[name].versus(NATIVE, best, at_least=least)
    for name in (ONE_PERCENT, HOT):
        yield found[name].versus(NATIVE, ALONE, at_most=1.03)
        yield found[f"{name}: bytes"].versus(NATIVE, ALONE, at_most=1.1)
    yield found[TENTH].versus(NATIVE, ALONE)


def _epoch(readers: int) -> str:
    return EPOCH.format(readers, "" if readers == 1 else "s")


def _cached(files: Files, readers: int, name: str) -> Values:
    with files.mounted(name) as mount:
        values = {}
        if name == WARMED:
            warm = [*FFRFS, "warm", "--quiet", mount.root]
            seconds = measure.seconds(lambda: measure.run(warm, TIMEOUT_S))
            if readers == 1:
                values[WARMING] = seconds / files.count * 1e6
            listing_s = listing_cpu_s = 0.0
        else:
            before = sum(os.times()[2:4])
            listing_s = measure.seconds(partial(_list, mount.root))
            listing_cpu_s = sum(os.times()[2:4]) - before
        begin_s = memory.cpu_seconds(mount.daemon) if mount.daemon else 0.0
        found = files.read(mount, readers)
        served_s = memory.cpu_seconds(mount.daemon) - begin_s if mount.daemon else 0.0
        cpu_s = found["cpu_seconds"][0] + listing_cpu_s + served_s
        values[_epoch(readers)] = (listing_s + found["seconds"][0]) / files.count * 1e6
        values[CPU.format(readers)] = cpu_s / files.count * 1e6
        files.read(mount, readers, "check")
    return values


def _list(root: Path) -> None:
    measure.run(["find", root], TIMEOUT_S, stdout=subprocess.DEVNULL)


def _slow(files: Files, is_listed: bool, name: str) -> Values:
    with files.mounted(name, slow=True) as mount:
        if is_listed:
            _list(mount.root)
        seconds = files.read(mount, 4)["seconds"][0]
        files.read(mount, 4, "check")
    return {LISTED if is_listed else NOT_LISTED: files.count / seconds}


def _one_percent(files: Files, mount: Mount) -> float:
    return files.read(mount, 4, count=max(files.count // 100, 4))["seconds"][0]


def _hot(files: Files, mount: Mount) -> float:
    passes = ["read"] * HOT_PASSES
    return sum(files.read(mount, 4, *passes, count=min(HOT_FILES, files.count))["seconds"])


_WRONG: dict[str, Callable[[Files, Mount], float]] = {ONE_PERCENT: _one_percent, HOT: _hot}


def _wrong(files: Files, name: str) -> Values:
    values = {}
    for key, job in _WRONG.items():
        with files.mounted(name, slow=True) as mount:
            _list(mount.root)
            before = files.disk.counts().size_bytes
            values[key] = job(files, mount)
            read = files.disk.counts().size_bytes - before
            values[f"{key}: bytes"] = read / (files.count * files.size)
    return values


def _tenth(files: Files, name: str) -> Values:
    with files.mounted(name) as mount:
        _list(mount.root)
        page_cache.forget(files.stored(name))
        return {TENTH: files.read(mount, 4, count=max(files.count // 10, 4))["seconds"][0]}


def _tenfold(plan: Plan, files: Files) -> Findings:
    """Measure whole epochs in a control group that has memory for a tenth of the files."""
    title = f"{files.title}, {ON_SLOW}"
    reason = control_group.why_not()
    if reason:
        missing = dict.fromkeys((NATIVE, ALONE), reason)
        return Findings([], [Comparison(title, TENFOLD, "s", {}, missing)])
    session = partial(_in_group, files, max(files.count * files.size // 10, GROUP_BYTES_MIN))
    found = _compare(plan, title, (NATIVE, ALONE), session, plan.long_rounds)
    limits = {TENFOLD: 1.03, f"{TENFOLD}: bytes": 1.1}
    figures = [each.versus(NATIVE, ALONE, at_most=limits[each.name]) for each in found]
    return Findings(figures, found)


def _in_group(files: Files, limit_bytes: int, name: str) -> Values:
    stored = files.stored(name)
    with (
        files.disk.mounted() as root,
        control_group.limited(limit_bytes),
        contenders.mounted(name, root / stored.name, files.work / "mnt") as mount,
    ):
        _list(mount.root)
        before = files.disk.counts().size_bytes
        seconds = files.read(mount, 4)["seconds"][0]
        read = files.disk.counts().size_bytes - before
    return {TENFOLD: seconds, f"{TENFOLD}: bytes": read / (files.count * files.size)}
