"""Very many small files that are on a disk: packing them, and find over all of them.

Packing beside `tar cf`, the source page-cached and both until the file is on the disk; of
`ffrfs pack` the peak memory too. find(1) on fresh mounts, the packed file page-cached.
"""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

from benchmarks import contenders, data, measure, memory, packers, packing, page_cache, walk
from benchmarks.contenders import NATIVE, RATARMOUNT, SQUASHFUSE
from benchmarks.figure import Comparison, Figure
from benchmarks.plan import Plan

PACKERS = (packers.FFR, packers.TAR)
WALKERS = (NATIVE, SQUASHFUSE, RATARMOUNT)
PACKING, PEAK = "packing", "packing: peak memory"
WALK = "find -size +0, first"


def comparisons(plan: Plan, work: Path) -> list[Comparison]:
    work.mkdir()
    try:
        source = data.write_folder(work / "source", plan.indexed_count, plan.indexed_size)
        return [*_packing(plan, source, work / "output"), _walking(plan, source, work)]
    finally:
        shutil.rmtree(work)


def figures(found: list[Comparison]) -> list[Figure]:
    by_name = {comparison.name: comparison for comparison in found}
    return [
        by_name[PACKING].versus(packers.FFR, packers.TAR, at_most=1.3),
        by_name[PEAK].of(packers.FFR, "MB", at_most=400),
        by_name[WALK].of(NATIVE, "s", at_most=6),
        by_name[WALK].versus(RATARMOUNT, NATIVE, at_least=5),
        by_name[WALK].versus(NATIVE, SQUASHFUSE, at_most=0.5),
    ]


def _packing(plan: Plan, source: data.Folder, output: Path) -> list[Comparison]:
    """Seconds and megabytes."""
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
    page_cache.fill(source.root / name for name in source.names)
    os.sync()  # what others have left to be written is not ours to pay for
    peak = memory.Peak()
    try:
        seconds = measure.seconds(lambda: packers.pack(packer, source.root, output, peak))
        if packer == packers.FFR:
            packing.check(output, source)
        return seconds, peak.size_bytes / 1e6
    finally:
        output.unlink(missing_ok=True)


def _walking(plan: Plan, source: data.Folder, work: Path) -> Comparison:
    missing = {name: why for name, why in plan.field.missing.items() if name in WALKERS}
    names = [name for name in WALKERS if name not in missing]
    mountpoint = work / "mnt"
    mountpoint.mkdir()
    for name in names:
        contenders.store(contenders.PACKERS[name], source.root, work)
    sessions = {name: partial(_walk, plan, source, work, name) for name in names}
    samples = measure.interleave(sessions, plan.long_rounds) if names else {}
    return Comparison(_label(plan), WALK, "s", samples, missing)


def _walk(plan: Plan, source: data.Folder, work: Path, name: str) -> float:
    stored = contenders.store(contenders.PACKERS[name], source.root, work)
    page_cache.fill([stored])
    with contenders.mounted(name, stored, work / "mnt") as mount:
        return walk.seconds(mount.root, plan.indexed_count)


def _label(plan: Plan) -> str:
    return f"{plan.indexed_count:,} files of {plan.indexed_size / 1000:g} KB"
