"""A folder packed into many shards, beside the same folder packed into one file.

First touch, cached: fresh mounts, the packed files page-cached, a random sample of the files
in random order by one reader. Both are mounted in a round, and get the same sample in turn, an
eighth at a time, so that load from the machine's neighbours affects both within a second.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
from contextlib import ExitStack
from pathlib import Path

from benchmarks import contenders, data, measure, mounting, packers, page_cache, reader
from benchmarks.contenders import NATIVE
from benchmarks.figure import Figure
from benchmarks.plan import Plan

TIMEOUT_S = 900
TURNS = 8
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
        rounds = [_round(stored, source, sample, work, seed) for seed in range(plan.rounds)]
        samples = {name: [found[name] for found in rounds] for name in stored}
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


def _round(
    stored: dict[str, Path], source: data.Folder, sample: int, work: Path, seed: int
) -> dict[str, float]:
    """Return the microseconds a file for each contender."""
    files = list(zip(source.names, source.checksums, strict=True))
    chosen = random.Random(seed).sample(files, sample)
    for path in stored.values():
        page_cache.fill(path.iterdir() if path.is_dir() else [path])
    seconds = dict.fromkeys(stored, 0.0)
    with ExitStack() as mounts:
        roots = {}
        for name, path in stored.items():
            mountpoint = work / f"{path.stem}.mnt"
            mountpoint.mkdir(exist_ok=True)
            roots[name] = mounts.enter_context(contenders.mounted(NATIVE, path, mountpoint)).root
        for turn in range(TURNS):
            names, checksums = zip(*chosen[turn::TURNS], strict=True)
            listing = work / "listing.json"
            listing.write_text(json.dumps({"names": names, "checksums": checksums}))
            order = list(roots) if (seed + turn) % 2 else list(reversed(roots))
            for name in order:
                seconds[name] += _read(roots[name], listing, len(names))
    return {name: value / sample * 1e6 for name, value in seconds.items()}


def _read(root: Path, listing: Path, count: int) -> float:
    found = mounting.read_passes(root, listing, reader.AS_LISTED, count, 1, "read", "check")
    return float(found["seconds"][0])


def _name(plan: Plan, count: int, size: int) -> str:
    label = f"{count:,} files of {size / 1000:g} KB"
    return f"{label}, first touch, cached, {plan.shard_count} shards by one file"
