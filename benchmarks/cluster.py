"""Packing and verifying by tasks: beside one process, with Dask, after a kill, and the plan.

ffrfs/cluster defines the tasks; cluster_plan.py plans a synthetic listing.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import time
from pathlib import Path

from benchmarks import data, measure, packers, page_cache
from benchmarks.figure import Figure, Findings
from benchmarks.plan import Plan
from ffrfs.cluster import plan as make_plan
from ffrfs.cluster.executors import open_executor
from ffrfs.cluster.pack_task import run_task
from ffrfs.cluster.packing import pack_by_plan
from tests.cluster import engines

TIMEOUT_S = 900
WORKERS = 2
PROCESSES = f"processes:{WORKERS}"


def run(plan: Plan) -> Findings:
    work = plan.folder / "cluster"
    work.mkdir()
    try:
        source = work / "source"
        data.write_folder(source, plan.task_files, plan.small_size)
        return Findings(
            [
                *_packing(plan, source, work),
                _verifying(plan, work),
                _resume(plan, source, work),
                _overhead(plan, work),
                *_listing(plan, work),
            ]
        )
    finally:
        shutil.rmtree(work)


def _packing(plan: Plan, source: Path, work: Path) -> list[Figure]:
    """Compare packing with Dask and with processes."""
    label = f"{plan.task_files:,} files of {plan.small_size / 1000:g} KB, {plan.shard_count} shards"
    with engines.dask(work, workers=WORKERS) as engine:
        ways = {"Dask": engine.text, PROCESSES: PROCESSES}
        samples = measure.interleave(
            {way: lambda text=text: _pack_s(plan, source, work / "set", text)
             for way, text in ways.items()},
            plan.long_rounds,
        )  # fmt: skip
    return [
        Figure(
            f"{label}, packed by Dask with {WORKERS} workers by {PROCESSES}",
            measure.median_ratio(samples["Dask"], samples[PROCESSES]),
            "x",
            at_most=1.15,
            note=_seconds_text(samples),
            samples=samples,
        ),
    ]


def _verifying(plan: Plan, work: Path) -> Figure:
    """Compare verifying page-cached packs by one worker and by two."""
    count = plan.verified_size // plan.large_size // plan.shard_count
    folder = work / "verified"
    folder.mkdir()
    packs = [folder / f"{number:02}.ffr" for number in range(plan.shard_count)]
    for pack in packs:
        data.write_pack(pack, max(count, 1), plan.large_size)
    page_cache.fill(packs)
    samples = measure.interleave(
        {
            text: lambda text=text: _seconds("verify", "--quiet", "--executor", text, *packs)
            for text in ("processes:1", PROCESSES)
        },
        plan.long_rounds,
    )
    size = sum(pack.stat().st_size for pack in packs)
    shutil.rmtree(folder)
    return Figure(
        f"{plan.shard_count} packs, {size / 1e9:.2g} GB, verified by one worker by {WORKERS}",
        measure.median_ratio(samples["processes:1"], samples[PROCESSES]),
        "x",
        at_least=1.7,
        note=_seconds_text(samples),
        samples=samples,
    )


def _resume(plan: Plan, source: Path, work: Path) -> Figure:
    """Measure the same command again after it was killed with half of the shards written."""
    samples: dict[str, list[float]] = {"whole": [], "after the kill": []}
    target = work / "resumed"
    for _ in range(plan.long_rounds):
        samples["whole"].append(_pack_s(plan, source, target, PROCESSES))
        shutil.rmtree(target)
        _pack_and_kill(plan, source, target)
        samples["after the kill"].append(_seconds(*_words(plan, source, target, PROCESSES)))
        shutil.rmtree(target)
    return Figure(
        "the same command after a SIGKILL at half of the shards, by the whole",
        measure.median_ratio(samples["after the kill"], samples["whole"]),
        "x",
        at_most=0.6,
        note=_seconds_text(samples),
        samples=samples,
    )


def _pack_and_kill(plan: Plan, source: Path, target: Path) -> None:
    words = [*packers.FFRFS, *map(str, _words(plan, source, target, PROCESSES))]
    program = subprocess.Popen(words, start_new_session=True)
    try:
        while program.poll() is None and len(list(target.glob("*.ffr"))) < plan.shard_count // 2:
            time.sleep(0.002)
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def _overhead(plan: Plan, work: Path) -> Figure:
    """Measure shards with one small file each: by an executor, and by a loop over their tasks."""
    source = work / "tiny"
    data.write_folder(source, plan.tiny_shards, 100)
    samples: dict[str, list[float]] = {"executor": [], "loop": []}
    for _ in range(plan.long_rounds):
        target = work / "tiny-set"
        began = time.perf_counter()
        with (
            open_executor("processes:1") as pool,
            make_plan(
                source, target, work / "plan", shards=plan.tiny_shards, executor=pool
            ) as made,
        ):
            pack_by_plan(made, pool)
            samples["executor"].append(time.perf_counter() - began)
            tasks = [made.task(number) for number in range(len(made))]
        shutil.rmtree(target)
        began = time.perf_counter()
        for task in tasks:
            run_task(task)
        samples["loop"].append(time.perf_counter() - began)
        shutil.rmtree(target)
    differences = [
        (by_pool - by_loop) / plan.tiny_shards * 1000
        for by_pool, by_loop in zip(samples["executor"], samples["loop"], strict=True)
    ]
    return Figure(
        f"a task beside its bytes: plan, start, schedule, row ({plan.tiny_shards:,} shards)",
        statistics.median(differences),
        "ms",
        at_most=10,
        note=_seconds_text(samples),
        samples=samples,
    )


def _listing(plan: Plan, work: Path) -> list[Figure]:
    arguments = [work / "vast-plan", plan.listed_files, plan.listed_shards]
    took = measure.run_python(["-m", "benchmarks.cluster_plan", *map(str, arguments)], TIMEOUT_S)
    (work / "vast-plan").unlink()
    label = f"plan of {plan.listed_files:,} files in {plan.listed_shards:,} shards"
    size = f"a plan of {took['size'] / 1e9:.2f} GB"
    return [
        Figure(f"{label}, synthetic listing", took["seconds"] / 60, "min", at_most=10, note=size),
        Figure(f"{label}, memory", took["peak_bytes"] / 1e9, "GB", at_most=1),
    ]


def _pack_s(plan: Plan, source: Path, target: Path, text: str) -> float:
    shutil.rmtree(target, ignore_errors=True)
    os.sync()
    return _seconds(*_words(plan, source, target, text))


def _words(plan: Plan, source: Path, target: Path, text: str) -> list[str | Path]:
    shards = ["--shards", str(plan.shard_count)]
    return ["pack", "--quiet", "--executor", text, *shards, source, target]


def _seconds(*words: str | Path) -> float:
    return measure.seconds(lambda: measure.run([*packers.FFRFS, *words], TIMEOUT_S))


def _seconds_text(samples: dict[str, list[float]]) -> str:
    medians = (f"{name} {statistics.median(taken):.3g} s" for name, taken in samples.items())
    return ", ".join(medians)
