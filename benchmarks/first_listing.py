"""The time until the first listing: `ffrfs mount PACK MNT`, then `ls MNT`.

It is the time of both programs, with the start of an interpreter. The cost of a pack's size is
given as the difference to a pack without files in the same round.
"""

from __future__ import annotations

import os
import select
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import contenders, index_packs, measure, mounts, packers, page_cache
from benchmarks.contenders import NATIVE
from benchmarks.figure import Figure
from benchmarks.index_packs import Pack, Packs
from benchmarks.plan import Plan

TIMEOUT_S = 120
AUTOMATIC_COUNT = 100_000  # with more files than these, a mount makes a missing sidecar
EMPTY, OWN, VAST = "empty", "own", "vast"
FIRST, SIDECAR = "reference, first", "reference, sidecar"


def figures(plan: Plan, packs: Packs) -> list[Figure]:
    found = _warm(plan, packs)
    if reason := page_cache.why_not_drop():
        name = f"{_label(packs.own)}, caches dropped"
        return [_unknown(name, reason, at_most=150), *found]
    return [*_cold(plan, packs), *found]


def not_measured(plan: Plan, reason: str) -> list[Figure]:
    name = f"{plan.indexed_count:,} and {plan.vast_count:,} files"
    return [_unknown(name, reason)]


def _warm(plan: Plan, packs: Packs) -> list[Figure]:
    """Measure with all packs in the page cache."""
    samples = measure.interleave(
        {
            EMPTY: partial(_until_listed, packs.empty, packs.mountpoint),
            OWN: partial(_until_listed, packs.own, packs.mountpoint),
            VAST: partial(_until_listed, packs.vast, packs.mountpoint),
            FIRST: partial(_first, packs.reference, packs.mountpoint),
            SIDECAR: partial(_with_sidecar, packs.reference, packs.mountpoint),
        },
        plan.rounds,
    )
    reference = f"{_label(packs.reference)} by the reference, page-cached"
    first = Figure(
        f"{reference}, no sidecar yet: mount and first ls",
        statistics.median(samples[FIRST]),
        "s",
        at_most=1,
        note=f"an empty pack's takes {statistics.median(samples[EMPTY]):.3f} s",
        samples={name: samples[name] for name in (FIRST, EMPTY)},
    )
    return [
        _above(f"{_label(packs.own)}, page-cached", samples, OWN, at_most=60),
        _above(f"{_label(packs.vast)}, page-cached", samples, VAST, at_most=100),
        first,
        _above(f"{reference}, with sidecar", samples, SIDECAR, at_most=150),
    ]


def _cold(plan: Plan, packs: Packs) -> list[Figure]:
    """Measure with nothing in memory, not even programs; and with all in memory but the pack."""
    kinds: dict[str, tuple[Callable[[Pack], None], dict[str, float]]] = {
        "caches dropped": (lambda _: page_cache.drop(), {"at_most": 150}),
        "the pack not cached": (lambda pack: page_cache.forget(pack.path), {}),
    }
    found = []
    for state, (prepare, target) in kinds.items():
        samples = measure.interleave(
            {
                EMPTY: partial(_until_listed, packs.empty, packs.mountpoint, prepare),
                OWN: partial(_until_listed, packs.own, packs.mountpoint, prepare),
            },
            plan.rounds,
        )
        found.append(_above(f"{_label(packs.own)}, {state}", samples, OWN, **target))
    return found


def _first(pack: Pack, mountpoint: Path) -> float:
    index_packs.remove_sidecar(pack)
    seconds = _until_listed(pack, mountpoint)
    if pack.count > AUTOMATIC_COUNT:
        index_packs.check_sidecar(pack)
    return seconds


def _with_sidecar(pack: Pack, mountpoint: Path) -> float:
    if not pack.sidecar.exists():
        index_packs.write_sidecar(pack)
    return _until_listed(pack, mountpoint)


def _fill(pack: Pack) -> None:
    page_cache.fill(path for path in (pack.path, pack.sidecar) if path.exists())


def _until_listed(pack: Pack, mountpoint: Path, prepare: Callable[[Pack], None] = _fill) -> float:
    """Return seconds. The daemon has a pipe's reading end open, and ends when ours is closed."""
    prepare(pack)
    theirs, ours = os.pipe()
    try:
        try:
            flags = [*contenders.ENGINES[NATIVE], "--while-open", str(theirs)]
            start = time.perf_counter()
            mount = [*packers.FFRFS, "mount", *flags, pack.path, mountpoint]
            measure.run(mount, TIMEOUT_S, pass_fds=[theirs])
        finally:
            os.close(theirs)
        listed = measure.run(["ls", mountpoint], TIMEOUT_S)
        seconds = time.perf_counter() - start
        if listed.count("\n") != pack.folder_count:
            raise RuntimeError(f"ls of {pack.path.name} shows {listed.count(chr(10))} folders")
        return seconds
    finally:
        try:
            mounts.unmount(mountpoint)
            _wait_for_end(ours)
        finally:
            os.close(ours)


def _wait_for_end(pipe: int) -> None:
    """Wait until no daemon has the reading end open, so that the next measurement is alone."""
    poll = select.poll()
    poll.register(pipe, 0)
    if not poll.poll(TIMEOUT_S * 1000):
        raise RuntimeError("the daemon has not ended with its mount")


def _label(pack: Pack) -> str:
    return f"pack of {pack.count:,} files"


def _above(
    label: str, samples: measure.Samples[float], name: str, at_most: float | None = None
) -> Figure:
    """Return the median of the rounds' differences to the empty pack."""
    sides = {side: samples[side] for side in (name, EMPTY)}
    pairs = zip(*sides.values(), strict=True)
    value_ms = statistics.median(ours - empty for ours, empty in pairs) * 1000
    medians = (statistics.median(values) for values in sides.values())
    note = "{:.3f} and {:.3f} s".format(*medians)
    return Figure(_name(label), value_ms, "ms", at_most=at_most, note=note, samples=sides)


def _unknown(label: str, reason: str, at_most: float | None = None) -> Figure:
    return Figure(_name(label), None, "ms", at_most=at_most, note=f"not measured: {reason}")


def _name(label: str) -> str:
    return f"{label}: mount and first ls, above an empty pack's"
