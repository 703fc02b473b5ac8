"""Very many small files: packing them, and find over all of them.

The files lie in memory (tmpfs): if a million files were on a disk, the kernel would drop some from
its caches while the others are read. Packing is beside `tar cf`, both until the packed file is on
the disk; for `ffrfs pack`, with the peak memory. find(1) runs on fresh mounts of cached packs.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

from benchmarks import contenders, data, measure, memory, packers, packing, page_cache, walk
from benchmarks.contenders import NATIVE, RATARMOUNT, SQUASHFUSE
from benchmarks.figure import Comparison, Figure
from benchmarks.plan import Plan

PACKERS = (packers.FFR, packers.TAR)
PACKING, PEAK = "packing", "packing: peak memory"
WALK, WALK_ONCE = "find -size +0, first", "find -size +0, first, one round"
# The contenders of each walk; ratarmount has one round, since it takes minutes.
WALKERS = {WALK: (NATIVE, SQUASHFUSE), WALK_ONCE: (NATIVE, RATARMOUNT)}
MEMORY = Path("/dev/shm")


def comparisons(plan: Plan, work: Path) -> list[Comparison]:
    work.mkdir()
    place = Path(tempfile.mkdtemp(prefix="ffrfs-", dir=MEMORY))
    try:
        source = data.write_folder(place / "source", plan.indexed_count, plan.indexed_size)
        (work / "mnt").mkdir()
        return [
            *_packing(plan, source, work / "output"),
            *(_walking(plan, source, work, title) for title in WALKERS),
        ]
    finally:
        shutil.rmtree(place)
        shutil.rmtree(work)


def figures(found: list[Comparison]) -> list[Figure]:
    by_name = {comparison.name: comparison for comparison in found}
    return [
        by_name[PACKING].versus(packers.FFR, packers.TAR, at_most=1.3),
        by_name[PEAK].of(packers.FFR, "MB", at_most=400),
        by_name[WALK].of(NATIVE, "s", at_most=6),
        by_name[WALK].versus(NATIVE, SQUASHFUSE, at_most=0.5),
        by_name[WALK_ONCE].versus(RATARMOUNT, NATIVE, at_least=5),
    ]


def _packing(plan: Plan, source: data.Folder, output: Path) -> list[Comparison]:
    """Measure seconds and megabytes."""
    outcomes = measure.interleave(
        {packer: partial(_pack, packer, source, output) for packer in PACKERS},
        plan.long_rounds,
    )
    seconds = {packer: [outcome[0] for outcome in found] for packer, found in outcomes.items()}
    peaks_mb = {packers.FFR: [outcome[1] for outcome in outcomes[packers.FFR]]}
    return [
        Comparison(_label(plan), PACKING, "s", seconds, {}),
        Comparison(_label(plan), PEAK, "MB", peaks_mb, {}),
    ]


def _pack(packer: str, source: data.Folder, output: Path) -> tuple[float, float]:
    os.sync()  # the time must not include pending writes of others
    peak = memory.Peak()
    try:
        seconds = measure.seconds(lambda: packers.pack(packer, source.root, output, peak))
        if packer == packers.FFR:
            packing.check(output, source)
        return seconds, peak.size_bytes / 1e6
    finally:
        output.unlink(missing_ok=True)


def _walking(plan: Plan, source: data.Folder, work: Path, title: str) -> Comparison:
    missing = {name: why for name, why in plan.field.missing.items() if name in WALKERS[title]}
    names = [name for name in WALKERS[title] if name not in missing]
    for name in names:
        contenders.store(contenders.PACKERS[name], source.root, work)
    sessions = {name: partial(_walk, plan, source, work, name) for name in names}
    rounds = 1 if title == WALK_ONCE else plan.long_rounds
    samples = measure.interleave(sessions, rounds) if names else {}
    return Comparison(_label(plan), title, "s", samples, missing)


def _walk(plan: Plan, source: data.Folder, work: Path, name: str) -> float:
    stored = contenders.store(contenders.PACKERS[name], source.root, work)
    page_cache.fill([stored])
    with contenders.mounted(name, stored, work / "mnt") as mount:
        return walk.seconds(mount.root, plan.indexed_count)


def _label(plan: Plan) -> str:
    return f"{plan.indexed_count:,} files of {plan.indexed_size / 1000:g} KB"
