"""A folder packed into many shards, beside the same folder packed into one file.

First touch, cached: a fresh mount, the packed files page-cached, a random sample of the files
in random order by one reader. Both get the same sample in a round.
"""

from __future__ import annotations

import itertools
import json
import shutil
import statistics
from functools import partial
from pathlib import Path

from benchmarks import contenders, data, measure, mounting, packers, page_cache
from benchmarks.contenders import NATIVE
from benchmarks.figure import Figure
from benchmarks.plan import Plan

TIMEOUT_S = 900
AT_MOST = 1.05
SHARDS, ONE = "shards", "one file"


def figures(plan: Plan, work: Path) -> list[Figure]:
    samples_of = {
        plan.large_size: plan.large_sample,
        plan.small_size: plan.small_sample,
    }
    return [_compare(plan, work, count, size, samples_of[size]) for count, size in plan.sets()]


def not_measured(plan: Plan, reason: str) -> list[Figure]:
    note = f"not measured: {reason}"
    return [
        Figure(_name(plan, count, size), None, "x", at_most=AT_MOST, note=note)
        for count, size in plan.sets()
    ]


def _compare(plan: Plan, work: Path, count: int, size: int, sample: int) -> Figure:
    work.mkdir()
    try:
        source = data.write_folder(work / "source", count, size)
        stored = _pack(plan, source, work)
        listing = work / "listing.json"
        listing.write_text(json.dumps({"names": source.names, "checksums": source.checksums}))
        mountpoint = work / "mnt"
        mountpoint.mkdir()
        samples = measure.interleave(
            {
                name: partial(_read, path, mountpoint, listing, itertools.count(), sample)
                for name, path in stored.items()
            },
            plan.rounds,
        )
    finally:
        shutil.rmtree(work)
    medians = (statistics.median(values) for values in samples.values())
    return Figure(
        _name(plan, count, size),
        measure.median_ratio(samples[SHARDS], samples[ONE]),
        "x",
        at_most=AT_MOST,
        note="{:.4g} and {:.4g} µs a file".format(*medians),
        samples=samples,
    )


def _pack(plan: Plan, source: data.Folder, work: Path) -> dict[str, Path]:
    shards, one = work / "shards", work / "one.ffr"
    amount = ["--shards", str(plan.shard_count)]
    measure.run([*packers.FFRFS, "pack", *amount, source.root, shards], TIMEOUT_S)
    made = len(list(shards.iterdir()))
    if made != plan.shard_count:
        raise RuntimeError(f"ffrfs pack {' '.join(amount)} made {made} files")
    packers.pack(packers.FFR, source.root, one)
    return {SHARDS: shards, ONE: one}


def _read(
    stored: Path, mountpoint: Path, listing: Path, seeds: itertools.count[int], sample: int
) -> float:
    """Microseconds a file."""
    page_cache.fill(stored.iterdir() if stored.is_dir() else [stored])
    with contenders.mounted(NATIVE, stored, mountpoint) as mount:
        found = mounting.read_passes(mount.root, listing, next(seeds), sample, 1, "read", "check")
    return float(found["seconds"][0]) / sample * 1e6


def _name(plan: Plan, count: int, size: int) -> str:
    label = f"{count:,} files of {size / 1000:g} KB"
    return f"{label}, first touch, cached, {plan.shard_count} shards by one file"
