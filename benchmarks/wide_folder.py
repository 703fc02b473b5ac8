"""One folder with all the files: the beginning of its listing, and a name looked up in it.

Each is on a fresh mount, with the packed file page-cached. The listing is `ls -U | head`, with
the start of the programs; lookups are stat() of names that the kernel does not know, in turn.
"""

from __future__ import annotations

import json
import random
import statistics
from pathlib import Path

from benchmarks import contenders, data, measure, page_cache
from benchmarks.contenders import NATIVE
from benchmarks.figure import Figure
from benchmarks.index_packs import Packs
from benchmarks.plan import Plan

TIMEOUT_S = 60
HEAD_LINES = 10
HEAD, LOOKUP = "ls -U into head", "a lookup"
_FOLDER = Path(data.file_name(0)).parent
TARGETS = {HEAD: (50, "ms"), LOOKUP: (200, "µs")}  # at most


def figures(plan: Plan, packs: Packs) -> list[Figure]:
    listing = packs.mountpoint.with_name("names.json")
    pick = random.Random(plan.indexed_count)
    heads_ms, lookups_us, slowest_us = [], [], []
    for _ in range(plan.rounds):
        page_cache.fill([packs.wide.path])
        heads_ms.append(_head_s(packs) * 1e3)
        chosen = pick.sample(range(packs.wide.count), plan.lookup_count)
        listing.write_text(json.dumps([Path(data.file_name(index)).name for index in chosen]))
        times_us = sorted(second * 1e6 for second in _lookups_s(packs, listing))
        lookups_us.append(statistics.median(times_us))
        slowest_us.append(times_us[len(times_us) * 99 // 100])
    of_100 = f"{statistics.median(slowest_us):.0f} µs for one in a hundred"
    return [
        _figure(plan, HEAD, heads_ms, "", {"head_ms": heads_ms}),
        _figure(plan, LOOKUP, lookups_us, of_100, {"median_us": lookups_us, "99 %": slowest_us}),
    ]


def not_measured(plan: Plan, reason: str) -> list[Figure]:
    note = f"not measured: {reason}"
    return [
        Figure(_name(plan, kind), None, unit, at_most=limit, note=note)
        for kind, (limit, unit) in TARGETS.items()
    ]


def _head_s(packs: Packs) -> float:
    with contenders.mounted(NATIVE, packs.wide.path, packs.mountpoint) as mount:
        folder = mount.root / _FOLDER
        program = ["sh", "-c", f'ls -U "$1" | head -n {HEAD_LINES}', "sh", folder]
        found = ""

        def head() -> None:
            nonlocal found
            found = measure.run(program, TIMEOUT_S)

        seconds = measure.seconds(head)
    if found.count("\n") != min(HEAD_LINES, packs.wide.count):
        raise RuntimeError(f"ls -U of a folder of {packs.wide.count} files shows {found!r}")
    return seconds


def _lookups_s(packs: Packs, listing: Path) -> list[float]:
    with contenders.mounted(NATIVE, packs.wide.path, packs.mountpoint) as mount:
        program = ["-m", "benchmarks.lookups", mount.root / _FOLDER, listing]
        found: list[float] = measure.run_python(program, TIMEOUT_S)
        stats = measure.run_python(["-m", "ffrfs", "stats", "--json", mount.root], TIMEOUT_S)
    if stats["requests"]["lookup"]["count"] < len(found):
        raise RuntimeError("the kernel has answered a lookup by itself")
    return found


def _figure(
    plan: Plan, kind: str, values: list[float], note: str, samples: dict[str, list[float]]
) -> Figure:
    limit, unit = TARGETS[kind]
    value = statistics.median(values)
    return Figure(_name(plan, kind), value, unit, at_most=limit, note=note, samples=samples)


def _name(plan: Plan, kind: str) -> str:
    return f"one folder of {plan.indexed_count:,} files, {kind}"
