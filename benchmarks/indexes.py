"""Packs of very many files, and of many shards: the index is searched, not parsed.

The measurements: first_listing.py, footprint.py, wide_folder.py (on packs of index_packs.py),
many_files.py, shards.py, verifying.py. Each makes its data and removes them, so that never
more than 20 GB of disk are used.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks import first_listing, footprint, many_files, shards, verifying, wide_folder
from benchmarks.contenders import NATIVE
from benchmarks.figure import Figure, Findings
from benchmarks.index_packs import Packs
from benchmarks.plan import Plan

ON_PACKS = (first_listing, footprint, wide_folder)


def run(plan: Plan) -> Findings:
    work = plan.folder / "indexes"
    work.mkdir()
    try:
        on_packs = _mounted(plan, work)
        verified = verifying.figure(plan, work)
        # This comes last: a million written and read files fill the kernel's caches.
        found = many_files.comparisons(plan, work / "many")
        figures = [*on_packs, *many_files.figures(found), verified]
    finally:
        shutil.rmtree(work)
    return Findings(figures, found)


def _mounted(plan: Plan, work: Path) -> list[Figure]:
    if NATIVE in plan.field.missing:
        reason = f"{NATIVE}: {plan.field.missing[NATIVE]}"
        parts = (*ON_PACKS, shards)
        return [figure for part in parts for figure in part.not_measured(plan, reason)]
    place = work / "packs"
    place.mkdir()
    try:
        packs = Packs.make(plan, place)
        found = [figure for part in ON_PACKS for figure in part.figures(plan, packs)]
    finally:
        shutil.rmtree(place)
    return [*found, *shards.figures(plan, work / "shards")]
