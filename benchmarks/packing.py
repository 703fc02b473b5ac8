"""Packing a folder of small files: time until the packed file is on the disk, and its size."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

from benchmarks import data, measure, packers, page_cache
from benchmarks.figure import Comparison, Findings
from benchmarks.plan import Plan
from ffrfs import FileReader


def run(plan: Plan) -> Findings:
    comparisons = [found for count, size in plan.sets() for found in _compare(plan, count, size)]
    large = comparisons[0]
    return Findings([large.versus(packers.FFR, packers.TAR, at_most=1.3)], comparisons)


def _compare(plan: Plan, count: int, size: int) -> list[Comparison]:
    """Measure time and size; the source is page-cached."""
    work = plan.folder / f"pack-{size}"
    work.mkdir()
    try:
        source = data.write_folder(work / "source", count, size)
        output = work / "output"
        outcomes = measure.interleave(
            {packer: partial(_pack, packer, source, output) for packer in packers.available()},
            plan.long_rounds,
        )
    finally:
        shutil.rmtree(work)
    label = f"{count:,} files of {size / 1000:g} KB"
    missing = {
        packer: f"there is no {program}"
        for packer, program in packers.PROGRAMS.items()
        if packer not in outcomes
    }
    seconds = {packer: [outcome[0] for outcome in found] for packer, found in outcomes.items()}
    megabytes = {packer: [outcome[1] for outcome in found] for packer, found in outcomes.items()}
    return [
        Comparison(label, "packing", "s", seconds, missing),
        Comparison(label, "packed size", "MB", megabytes, missing),
    ]


def _pack(packer: str, source: data.Folder, output: Path) -> tuple[float, float]:
    """Return seconds and megabytes."""
    page_cache.fill(source.root / name for name in source.names)
    os.sync()  # the time must not include pending writes of others
    try:
        seconds = measure.seconds(lambda: packers.pack(packer, source.root, output))
        if packer == packers.FFR:
            check(output, source)
        return seconds, output.stat().st_size / 1e6
    finally:
        output.unlink(missing_ok=True)


def check(pack: Path, source: data.Folder) -> None:
    """Check the pack: it is in the order of the names, so record i is file i; the index is last."""
    with FileReader(pack) as reader:
        reader.validate()
        if reader.get_checksums(0).tolist()[:-1] != source.checksums:
            raise RuntimeError("the pack does not hold what the folder holds")
