"""A mounted pack beside squashfuse_ll, and the plain folder.

Every round mounts afresh, with the packed file's pages cached, and one reader goes through
all files twice in the same random order: "first touch" with the mount's own caches empty,
"again" with whatever the kernel has kept.
"""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypedDict

from benchmarks import data, measure
from benchmarks.contenders import (
    make_squashfs,
    mounted_ffrfs,
    mounted_squashfuse,
    why_not_mount,
)
from benchmarks.plan import Plan
from benchmarks.report import Figure
from ffrfs import pack_folder

READER = Path(__file__).with_name("reader.py")
TIMEOUT_S = 600


class Passes(TypedDict):
    first: float  # seconds
    again: float
    wrong: int  # files


def run(plan: Plan) -> list[Figure]:
    reason = why_not_mount()
    if reason:
        return [Figure("mount vs. squashfuse_ll", None, "x", note=f"not measured: {reason}")]
    return [
        *_compare(plan, plan.mounted_large_count, plan.large_size, first=1.5, again=1.7),
        *_compare(plan, plan.mounted_small_count, plan.small_size, first=None, again=None),
    ]


def _compare(
    plan: Plan, count: int, size: int, first: float | None, again: float | None
) -> list[Figure]:
    """Figures for one size of file; `first` and `again` are the targets."""
    work = plan.folder / f"mount-{size}"
    work.mkdir()
    try:
        samples = _samples(plan, work, count, size)
    finally:
        shutil.rmtree(work)
    micros = {
        f"{name}_{key}": [passes[key] / count * 1e6 for passes in samples[name]]
        for name in samples
        for key in ("first", "again")
    }
    figures = []
    for key, target in (("first", first), ("again", again)):
        ours, theirs, plain = (
            micros[f"{name}_{key}"] for name in ("ffrfs", "squashfuse", "folder")
        )
        medians = map(statistics.median, (ours, theirs, plain))
        figures.append(
            Figure(
                f"mount, {size / 1000:g} KB files, "
                f"{'first touch' if key == 'first' else 'again'}, vs. squashfuse_ll",
                measure.median_ratio(ours, theirs),
                "x",
                at_most=target,
                note="{:.0f} and {:.0f} µs a file; the folder itself {:.0f}".format(*medians),
                samples={name: values for name, values in micros.items() if key in name},
            )
        )
    return figures


def _samples(plan: Plan, work: Path, count: int, size: int) -> measure.Samples[Passes]:
    source = data.write_folder(work / "source", count, size)
    listing = work / "listing.json"
    listing.write_text(json.dumps({"names": source.names, "checksums": source.checksums}))
    pack = work / "pack.ffr"
    pack_folder(source.root, pack)
    image = make_squashfs(source.root, work / "image.squashfs")
    mountpoint = work / "mnt"
    mountpoint.mkdir()
    seeds = iter(range(1_000_000))

    def passes(mounted: Callable[[], AbstractContextManager[Path]], *stored: Path) -> Passes:
        measure.cache_pages(stored)
        with mounted() as root:
            found: Passes = measure.run_python(
                [READER, root, listing, str(next(seeds))], TIMEOUT_S
            )
        if found["wrong"]:
            raise RuntimeError(f"{found['wrong']} files of {root} were read wrong")
        return found

    plain = [source.root / name for name in source.names]
    return measure.interleave(
        {
            "ffrfs": lambda: passes(lambda: mounted_ffrfs(pack, mountpoint), pack),
            "squashfuse": lambda: passes(lambda: mounted_squashfuse(image, mountpoint), image),
            "folder": lambda: passes(lambda: nullcontext(source.root), *plain),
        },
        plan.rounds,
    )
