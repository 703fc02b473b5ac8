"""One large file, read from its beginning to its end through every mount.

Beside each read is one of the packed file itself, through the page cache, in the same state:
cached (the packed file is in the page cache, the mount's pages are not) or uncached (neither).

Without checksums of its chunks ffrfs reads all of the file before the first byte of the
very first read leaves. So it is read twice in each state: "first" with that, and "later" on
the same mount, the checksum verified and the mount's pages dropped.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import contenders, data, measure, page_cache
from benchmarks.contenders import FOLDER, NATIVE
from benchmarks.figure import Comparison, Figure, Findings
from benchmarks.plan import Plan

TIMEOUT_S = 600
UNIT = "MB/s"
FIRST_CACHED, LATER_CACHED = "first read, cached", "later read, cached"
FIRST_UNCACHED, LATER_UNCACHED = "first read, uncached", "later read, uncached"
AGAIN = "again"
PACKED_CACHED = "the packed file itself, cached"
PACKED_UNCACHED = "the packed file itself, uncached"
# Each beside what it is held against.
BESIDE = {
    FIRST_CACHED: PACKED_CACHED,
    LATER_CACHED: PACKED_CACHED,
    FIRST_UNCACHED: PACKED_UNCACHED,
    LATER_UNCACHED: PACKED_UNCACHED,
}
NAMES = (*BESIDE, AGAIN, PACKED_CACHED, PACKED_UNCACHED)
UNCACHED = (FIRST_UNCACHED, LATER_UNCACHED, PACKED_UNCACHED)
LATER = (LATER_CACHED, LATER_UNCACHED)


@dataclass(frozen=True)
class Stream:
    """The file in its folder, and that folder's packed files."""

    source: data.Folder
    size: int
    work: Path
    mountpoint: Path

    def stored(self, name: str) -> Path:
        packer = contenders.PACKERS[name]
        return contenders.store(packer, self.source.root, self.work) if packer else self.source.root

    def packed(self, name: str) -> Path:
        return self.source.root / self.source.names[0] if name == FOLDER else self.stored(name)

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
        for name in plan.field.names:
            stream.stored(name)
        rounds = measure.interleave(
            {name: partial(_session, stream, name) for name in plan.field.names},
            plan.long_rounds,
        )
    finally:
        shutil.rmtree(work)
    comparisons = {name: _comparison(plan, name, rounds) for name in NAMES}
    figures = [_beside(comparisons, name) for name in BESIDE]
    return Findings(figures, list(comparisons.values()))


def _comparison(plan: Plan, name: str, rounds: measure.Samples[dict[str, float]]) -> Comparison:
    samples = {
        contender: [outcome[name] for outcome in outcomes]
        for contender, outcomes in rounds.items()
        if name in outcomes[0]
    }
    missing = dict(plan.field.missing)
    if name in UNCACHED and page_cache.why_not_drop():
        missing |= dict.fromkeys(plan.field.names, page_cache.why_not_drop())
    if name in LATER:
        others = [name for name in plan.field.names if name not in contenders.ENGINES]
        missing |= dict.fromkeys(others, "it verifies nothing, so this is the first read")
    return Comparison(f"{plan.huge_size / (1 << 30):.3g} GiB", name, UNIT, samples, missing)


def _beside(comparisons: dict[str, Comparison], name: str) -> Figure:
    """Our speed by that of reading the packed file itself."""
    ours, packed = comparisons[name], comparisons[BESIDE[name]]
    label = f"{ours.data}, {name}, {NATIVE} by {packed.name}"
    missing = ours.why_missing(NATIVE)
    if missing:
        return Figure(label, None, "x", at_least=0.8, note=missing)
    value = measure.median_ratio(ours.samples[NATIVE], packed.samples[NATIVE])
    note = f"{ours.median(NATIVE):,.0f} and {packed.median(NATIVE):,.0f} {UNIT}"
    return Figure(label, value, "x", at_least=0.8, note=note)


def _session(stream: Stream, name: str) -> dict[str, float]:
    """All speeds of one contender in one round."""
    packed = stream.packed(name)
    page_cache.fill([packed])
    speeds = {PACKED_CACHED: stream.speed(packed)}
    with contenders.mounted(name, stream.stored(name), stream.mountpoint) as mount:
        file = mount.root / stream.source.names[0]
        speeds[FIRST_CACHED] = stream.speed(file)
        speeds[AGAIN] = stream.speed(file)
        if name in contenders.ENGINES:
            speeds[LATER_CACHED] = stream.speed(file, "forget")
        stream.speed(file, "check")
    return speeds | ({} if page_cache.why_not_drop() else _uncached(stream, name))


def _uncached(stream: Stream, name: str) -> dict[str, float]:
    page_cache.drop()
    speeds = {PACKED_UNCACHED: stream.speed(stream.packed(name))}
    with contenders.mounted(name, stream.stored(name), stream.mountpoint) as mount:
        file = mount.root / stream.source.names[0]
        page_cache.drop()
        speeds[FIRST_UNCACHED] = stream.speed(file)
        if name in contenders.ENGINES:
            page_cache.drop()
            speeds[LATER_UNCACHED] = stream.speed(file)
    return speeds
