"""The memory of a mount of very many files: its worker's, after mounting and after a walk.

The worker's private memory counts, but not the pages of the packed file that it has mapped,
since the kernel can take them back. The note gives their size.
"""

from __future__ import annotations

import statistics

from benchmarks import contenders, measure, memory, page_cache, walk
from benchmarks.contenders import NATIVE
from benchmarks.figure import Figure
from benchmarks.index_packs import Packs
from benchmarks.memory import Share
from benchmarks.plan import Plan

TIMEOUT_S = 60
STATES = {"after mounting and ls": 40, "after find over all": 60}  # MB, at most


def figures(plan: Plan, packs: Packs) -> list[Figure]:
    rounds = [_session(packs) for _ in range(plan.long_rounds)]
    return [_figure(plan, state, [found[state] for found in rounds]) for state in STATES]


def not_measured(plan: Plan, reason: str) -> list[Figure]:
    return [
        Figure(_name(plan, state), None, "MB", at_most=target, note=f"not measured: {reason}")
        for state, target in STATES.items()
    ]


def _session(packs: Packs) -> dict[str, Share]:
    mounting, walking = STATES
    pack = packs.vast
    page_cache.fill([pack.path])
    with contenders.mounted(NATIVE, pack.path, packs.mountpoint) as mount:
        measure.run(["ls", mount.root], TIMEOUT_S)
        worker = memory.worker_of(mount.daemon or 0)
        begin = memory.share(worker, pack.path)
        walk.seconds(mount.root, pack.count)
        return {mounting: begin, walking: memory.share(worker, pack.path)}


def _figure(plan: Plan, state: str, shares: list[Share]) -> Figure:
    private_mb = [share.private_bytes / 1e6 for share in shares]
    mapped_mb = [share.mapped_bytes / 1e6 for share in shares]
    return Figure(
        _name(plan, state),
        statistics.median(private_mb),
        "MB",
        at_most=STATES[state],
        note=f"beside {statistics.median(mapped_mb):,.0f} MB of mapped pages of the pack",
        samples={"private_mb": private_mb, "mapped_mb": mapped_mb},
    )


def _name(plan: Plan, state: str) -> str:
    return f"pack of {plan.vast_count:,} files, the worker's private memory {state}"
