"""Packs by a plan, with any executor: what is there already is kept, the rest is made.

The plan of a command is in the directory of the set, until the set is complete. So the same
command goes on after whatever ended it.

Not here: plans (planned_set.py), engines (executors.py), what a command prints (ffrfs/cli).
Concurrency: one process at a time for a plan; two do the same work twice, and no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor

from ffrfs.cluster.executors import adopted, slots
from ffrfs.cluster.manifest import SetSummary, commit
from ffrfs.cluster.pack_task import OnError, PackTask, run_task
from ffrfs.cluster.planned_set import Plan
from ffrfs.cluster.row import Missing, Row
from ffrfs.errors import UnfinishedError, describe
from ffrfs.folder.progress import Progress
from ffrfs.packing.driver import drive
from ffrfs.packing.places import shard_name

# Then something is wrong everywhere, a full disk for example.
_FAILURES_MAX = 10


def pack_by_plan(  # noqa: PLR0913 - how, where, and what is seen of it
    plan: Plan,
    executor: Executor,
    *,
    on_error: OnError = "stop",
    jobs: int = 1,
    tmp_dir: str | None = None,
    progress: Progress | None = None,
) -> tuple[SetSummary, list[Missing]]:
    """Make the shards that are missing, and complete the set; return the files that it lacks.

    A shard that cannot be made does not keep the others from being made. With on_error "stop"
    a file that is not as it was listed ends the whole; "skip" and "record" leave it out.

    Raises UnfinishedError if shards are missing at the end: the same call goes on from there.
    """
    rows = make_shards(
        plan,
        range(len(plan)),
        executor,
        on_error=on_error,
        jobs=jobs,
        tmp_dir=tmp_dir,
        progress=progress,
    )
    return commit(plan, rows), [file for row in rows for file in row.missing]


def make_shards(  # noqa: PLR0913 - as pack_by_plan
    plan: Plan,
    numbers: Iterable[int],
    executor: Executor,
    *,
    on_error: OnError,
    jobs: int,
    tmp_dir: str | None,
    progress: Progress | None,
) -> list[Row]:
    """Return the rows of these shards of the plan. Raises UnfinishedError."""
    left = iter(numbers)
    rows: list[Row] = []
    failures: list[str] = []
    files = size = 0

    def take() -> PackTask | None:
        number = next(left, None)
        if number is None:
            return None
        return plan.task(number, on_error=on_error, jobs=jobs, tmp_dir=tmp_dir)

    def done(task: PackTask, row: Row | Exception) -> None:
        nonlocal files, size
        if isinstance(row, Exception):
            failures.append(f"{shard_name(task.shard[1])}: {describe(row)}")
            if len(failures) >= _FAILURES_MAX:
                raise _shards_missing(plan, failures)
            return
        if row.made is False:
            raise _not_as_listed(plan, row)
        rows.append(row)
        files += row.file_count
        size += row.byte_count
        if progress is not None:
            progress(files, plan.file_count, size, plan.byte_count)

    drive(adopted(executor), slots(executor), run_task, take, done)
    if failures:
        raise _shards_missing(plan, failures)
    return rows


def _shards_missing(plan: Plan, failures: Sequence[str]) -> UnfinishedError:
    return UnfinishedError(
        f"{plan.target}: {len(failures):,} of {len(plan):,} shards could not be made; what is "
        "there is kept, and the same command makes the rest",
        failures,
    )


def _not_as_listed(plan: Plan, row: Row) -> UnfinishedError:
    first, more = row.missing[0], len(row.missing) - 1
    return UnfinishedError(
        f"{plan.request.sources[0]}: {first.path}: {first.reason}"
        f"{f' (and {more:,} more files of {row.name})' if more else ''}; repair it and go on by "
        "the same command, leave such files out by --on-error skip, or plan anew"
    )
