"""Packs by a plan, with any executor: existing shards are kept, the others are made.

The plan of a command is in the directory of the set, until the set is complete. So the same
command goes on after any end.

Not here: plans (planned_set.py), engines (executors.py), what a command prints (ffrfs/cli).
Concurrency: one process at a time for a plan; two do the same work twice, without harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from typing import Unpack

from ffrfs.cluster.file_task import run_all
from ffrfs.cluster.manifest import SetSummary, commit
from ffrfs.cluster.pack_task import PackTask, run_task
from ffrfs.cluster.planned_set import Plan
from ffrfs.cluster.row import MakingKeywords, Missing, Row
from ffrfs.errors import UnfinishedError, describe
from ffrfs.folder.progress import Progress
from ffrfs.packing.places import shard_name


def pack_by_plan(
    plan: Plan,
    executor: Executor,
    *,
    progress: Progress | None = None,
    **making: Unpack[MakingKeywords],
) -> tuple[SetSummary, list[Missing]]:
    """Make the missing shards, and complete the set; return the files that it lacks.

    If a shard cannot be made, the others still are. With on_error "stop" a file that is not as
    it was listed ends the packing; "skip" and "record" leave it out.

    Raises UnfinishedError if shards are missing at the end: the same call goes on from there.
    """
    rows = make_shards(plan, range(len(plan)), executor, progress=progress, **making)
    return commit(plan, rows), [file for row in rows for file in row.missing]


def make_shards(
    plan: Plan,
    numbers: Iterable[int],
    executor: Executor,
    *,
    progress: Progress | None,
    **making: Unpack[MakingKeywords],
) -> list[Row]:
    """Return the rows of these shards, in the order of their numbers. Raises UnfinishedError."""
    rows: list[Row] = []
    files = size = 0

    def seen(_: PackTask, row: Row) -> None:
        nonlocal files, size
        if row.made is False:
            raise _not_as_listed(plan, row)
        rows.append(row)
        files += row.file_count
        size += row.byte_count
        if progress is not None:
            progress(files, plan.file_count, size, plan.byte_count)

    def failed(failures: Sequence[tuple[PackTask, Exception]]) -> UnfinishedError:
        return UnfinishedError(
            f"{plan.target}: {len(failures):,} of {len(plan):,} shards could not be made; the "
            "others are kept: run the same command again, and it makes the rest",
            [f"{shard_name(task.shard[1])}: {describe(error)}" for task, error in failures],
        )

    tasks = (plan.task(number, **making) for number in numbers)
    run_all(executor, run_task, tasks, seen, failed)
    return sorted(rows, key=lambda row: row.number)


def _not_as_listed(plan: Plan, row: Row) -> UnfinishedError:
    first, more = row.missing[0], len(row.missing) - 1
    return UnfinishedError(
        f"{plan.request.sources[0]}: {first.path}: {first.reason}"
        f"{f' (and {more:,} more files of {row.name})' if more else ''}; repair it and "
        "run the same command again, leave such files out by --on-error skip, or plan anew"
    )
