"""`ffrfs verify` on two cores, of a packed folder that is page-cached."""

from __future__ import annotations

import os
import statistics
from pathlib import Path

from benchmarks import data, measure, packers, page_cache
from benchmarks.figure import Figure
from benchmarks.plan import Plan

TIMEOUT_S = 300
CORES = 2


def figure(plan: Plan, work: Path) -> Figure:
    pack = work / "verified.ffr"
    count = plan.verified_size // plan.large_size
    try:
        data.write_pack(pack, count, plan.large_size)
        size = pack.stat().st_size
        seconds = [_verify_s(pack) for _ in range(plan.long_rounds)]
    finally:
        pack.unlink(missing_ok=True)
    speeds = [size / second / 1e9 for second in seconds]
    return Figure(
        f"ffrfs verify of {size / 1e9:.3g} GB, page-cached, {CORES} cores",
        statistics.median(speeds),
        "GB/s",
        at_least=4,
        note=f"{statistics.median(seconds):.3f} s, the interpreter's start among them",
        samples={"seconds": seconds},
    )


def _verify_s(pack: Path) -> float:
    page_cache.fill([pack])
    cores = sorted(os.sched_getaffinity(0))[:CORES]
    on_cores = ["taskset", "--cpu-list", ",".join(map(str, cores))]
    command = [*on_cores, *packers.FFRFS, "verify", "--quiet", pack]
    return measure.seconds(lambda: measure.run(command, TIMEOUT_S))
