"""One large file, read from its beginning to its end through every mount.

Beside each read is one of the packed file itself, through the page cache, in the same state:
cached (the packed file is in the page cache, the mount's pages are not) or uncached (neither).

Without checksums of its chunks, ffrfs reads the whole file before the very first read returns a
byte. So the file is read twice in each state: "first" includes that, and "later" is on the same
mount, after the checksum was verified and the mount's pages were dropped.

The most that a server of /dev/fuse can reach is the speed of unverified.c, which copies each byte
as often as ours and does nothing else. A disk may be fast only until its allowance is used up, so
in every other round the uncached reads come in the opposite order.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks import contenders, data, measure, mounts, page_cache
from benchmarks.contenders import CEILING, FOLDER, NATIVE, SQUASHFUSE, URING
from benchmarks.figure import Comparison, Figure, Findings
from benchmarks.plan import Plan

TIMEOUT_S = 600
UNIT = "MB/s"
FIRST_CACHED, LATER_CACHED = "first read, cached", "later read, cached"
FIRST_UNCACHED, LATER_UNCACHED = "first read, uncached", "later read, uncached"
AGAIN = "again"
PACKED_CACHED = "the packed file itself, cached"
PACKED_UNCACHED = "the packed file itself, uncached"
# Each read, with the one that it is compared with.
BESIDE = {FIRST_UNCACHED: PACKED_UNCACHED, LATER_UNCACHED: PACKED_UNCACHED}
NAMES = (FIRST_CACHED, LATER_CACHED, *BESIDE, AGAIN, PACKED_CACHED, PACKED_UNCACHED)
UNCACHED = (FIRST_UNCACHED, LATER_UNCACHED, PACKED_UNCACHED)
LATER = (LATER_CACHED, LATER_UNCACHED)
SOURCE = Path(__file__).with_name("unverified.c")


@dataclass(frozen=True)
class Stream:
    """The file in its folder, and that folder's packed files."""

    source: data.Folder
    size: int
    work: Path
    mountpoint: Path
    rounds: dict[str, itertools.count[int]] = field(default_factory=dict)  # by contender

    @property
    def plain(self) -> Path:
        return self.source.root / self.source.names[0]

    def stored(self, name: str) -> Path:
        packer = contenders.PACKERS[name]
        return contenders.store(packer, self.source.root, self.work) if packer else self.source.root

    def packed(self, name: str) -> Path:
        return self.plain if name in (FOLDER, CEILING) else self.stored(name)

    def mounted(self, name: str) -> AbstractContextManager[mounts.Mount]:
        if name == CEILING:
            return mounts.served([self.ceiling, self.plain, self.mountpoint], self.mountpoint)
        return contenders.mounted(name, self.stored(name), self.mountpoint)

    @property
    def ceiling(self) -> Path:
        return self.work / "unverified"

    def speed(self, path: Path, mode: str = "") -> float:
        found = measure.run_python(["-m", "benchmarks.streamer", path, mode], TIMEOUT_S)
        if mode == "check" and found["checksum"] != self.source.checksums[0]:
            raise RuntimeError(f"{path} was read wrong")
        return self.size / found["seconds"] / 1e6


def run(plan: Plan) -> Findings:
    work = plan.folder / "stream"
    work.mkdir()
    try:
        source = data.write_huge(work / "source", plan.huge_size)
        stream = Stream(source, plan.huge_size, work, work / "mnt")
        stream.mountpoint.mkdir()
        missing = _compile(stream.ceiling)
        names = [*plan.field.names] + ([] if missing else [CEILING])
        for name in plan.field.names:
            stream.stored(name)
        rounds = measure.interleave(
            {name: partial(_session, stream, name) for name in names}, plan.long_rounds
        )
    finally:
        shutil.rmtree(work)
    comparisons = {name: _comparison(plan, name, rounds, missing) for name in NAMES}
    first, later = comparisons[FIRST_CACHED], comparisons[LATER_CACHED]
    figures = [
        *(first.versus(name, CEILING, at_least=0.85) for name in (NATIVE, URING)),
        first.versus(NATIVE, SQUASHFUSE, at_least=1.5),
        # The ceiling verifies nothing, so its first read is like any later one.
        *(_later(later, first, name) for name in (NATIVE, URING)),
        *(_beside(comparisons, name) for name in BESIDE),
    ]
    return Findings(figures, list(comparisons.values()))


def _compile(program: Path) -> dict[str, str]:
    """Compile the ceiling; return why it has no samples. Empty: it takes part."""
    if os.geteuid() != 0:
        return {CEILING: "it mounts by itself, which needs root"}
    try:
        measure.run(["cc", "-O2", "-pthread", "-o", program, SOURCE], TIMEOUT_S)
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        return {CEILING: f"it was not compiled: {error}".splitlines()[0]}
    return {}


def _comparison(
    plan: Plan, name: str, rounds: measure.Samples[dict[str, float]], no_ceiling: dict[str, str]
) -> Comparison:
    samples = {
        contender: [outcome[name] for outcome in outcomes]
        for contender, outcomes in rounds.items()
        if name in outcomes[0]
    }
    missing = plan.field.missing | no_ceiling
    if name in UNCACHED and page_cache.why_not_drop():
        missing |= dict.fromkeys(plan.field.names, page_cache.why_not_drop())
    if name in LATER:
        others = [name for name in plan.field.names if name not in contenders.ENGINES]
        missing |= dict.fromkeys(
            [*others, CEILING], "it verifies nothing, so this is the first read"
        )
    return Comparison(f"{plan.huge_size / (1 << 30):.3g} GiB", name, UNIT, samples, missing)


def _beside(comparisons: dict[str, Comparison], name: str) -> Figure:
    """Return our speed divided by that of reading the packed file itself."""
    ours, packed = comparisons[name], comparisons[BESIDE[name]]
    label = f"{ours.data}, {name}, {NATIVE} by {packed.name}"
    missing = ours.why_missing(NATIVE)
    if missing:
        return Figure(label, None, "x", at_least=0.9, note=missing)
    value = measure.median_ratio(ours.samples[NATIVE], packed.samples[NATIVE])
    note = f"{ours.median(NATIVE):,.0f} and {packed.median(NATIVE):,.0f} {UNIT}"
    return Figure(label, value, "x", at_least=0.9, note=note)


def _later(later: Comparison, first: Comparison, name: str) -> Figure:
    """Return our later reads divided by the ceiling's reads, which are all of one kind."""
    label = f"{later.data}, {later.name}, {name} by {CEILING}"
    missing = later.why_missing(name) or first.why_missing(CEILING)
    if missing:
        return Figure(label, None, "x", at_least=0.9, note=missing)
    value = measure.median_ratio(later.samples[name], first.samples[CEILING])
    note = f"{later.median(name):,.0f} and {first.median(CEILING):,.0f} {UNIT}"
    return Figure(label, value, "x", at_least=0.9, note=note)


def _session(stream: Stream, name: str) -> dict[str, float]:
    """Return all speeds of one contender in one round."""
    packed = stream.packed(name)
    page_cache.fill([packed])
    speeds = {PACKED_CACHED: stream.speed(packed)}
    with stream.mounted(name) as mount:
        file = mount.root / stream.source.names[0]
        speeds[FIRST_CACHED] = stream.speed(file)
        speeds[AGAIN] = stream.speed(file)
        if name in contenders.ENGINES:
            speeds[LATER_CACHED] = stream.speed(file, "forget")
        stream.speed(file, "check")
    return speeds | ({} if page_cache.why_not_drop() else _uncached(stream, name))


def _uncached(stream: Stream, name: str) -> dict[str, float]:
    steps = [_packed_uncached, _mounted_uncached]
    if next(stream.rounds.setdefault(name, itertools.count())) % 2:
        steps.reverse()
    speeds: dict[str, float] = {}
    for step in steps:
        speeds |= step(stream, name)
    return speeds


def _packed_uncached(stream: Stream, name: str) -> dict[str, float]:
    page_cache.drop()
    return {PACKED_UNCACHED: stream.speed(stream.packed(name))}


def _mounted_uncached(stream: Stream, name: str) -> dict[str, float]:
    speeds = {}
    with stream.mounted(name) as mount:
        file = mount.root / stream.source.names[0]
        page_cache.drop()
        speeds[FIRST_UNCACHED] = stream.speed(file)
        if name in contenders.ENGINES:
            page_cache.drop()
            speeds[LATER_UNCACHED] = stream.speed(file)
    return speeds
