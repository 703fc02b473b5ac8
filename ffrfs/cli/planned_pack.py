"""Packing by a plan: `ffrfs pack` with an engine, and what `ffrfs cluster` does with a plan.

Not here: the options of packing, and packing by one process (pack.py); `ffrfs cluster` itself.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from ffrfs.cli import output
from ffrfs.cli.executor_option import listing_failures
from ffrfs.cli.parser import UsageError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ffrfs.cluster.manifest import SetSummary
    from ffrfs.cluster.planned_set import Plan
    from ffrfs.cluster.row import MakingKeywords, Missing
    from ffrfs.packing.sources.options import PackOptions

_JOBS = 4  # reading threads of a task: files that are not in the page cache are waited for


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("By many workers", "See `ffrfs cluster` and docs/cluster.md.")
    group.add_argument(
        "--executor",
        metavar="ENGINE",
        help="make the shards by processes[:N] of this machine, dask://HOST:PORT, ray, "
        "ray://HOST:PORT or mpi; the same command goes on where another was ended",
    )
    add_on_error(group)
    # The names that `ffrfs cluster` had before it was a command of its own.
    group.add_argument("--plan", help=argparse.SUPPRESS)
    group.add_argument("--task", type=task_of_tasks, help=argparse.SUPPRESS)
    group.add_argument("--commit", action="store_true", help=argparse.SUPPRESS)


def add_on_error(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--on-error",
        choices=["stop", "skip", "record"],
        default="stop",
        help="if a file changed, vanished or cannot be read: stop (the default), skip it, or "
        "record it (skip it, and exit with status 1); the manifest names all that were skipped",
    )


def is_planned(args: argparse.Namespace) -> bool:
    return args.executor is not None or args.plan is not None


def check_usage(args: argparse.Namespace) -> None:
    if not is_planned(args):
        for name, value in (("--task", args.task), ("--commit", args.commit)):
            if value:
                raise UsageError(f"argument {name}: needs --plan")
        if args.on_error != "stop":
            raise UsageError("argument --on-error: needs --executor")
        return
    if args.task and (args.commit or args.executor):
        raise UsageError("argument --task: not with --commit or --executor")
    _check_paths(args)


def _check_paths(args: argparse.Namespace) -> None:
    goes_on = args.plan is not None and not args.sources
    if goes_on and not (args.task or args.commit or args.executor):
        raise UsageError("argument --plan: needs SRC and DST, or --task, --commit or --executor")
    if goes_on and args.target is None:
        from ffrfs.packing.sources.options import PLANNED

        for name in (*PLANNED, "files_from", "reproducible", "force", "dry_run"):
            if getattr(args, name):
                option = name.replace("_", "-")
                raise UsageError(f"argument --{option}: the plan has it already")
    if args.target is not None and (args.task or args.commit):
        raise UsageError("argument SRC: the plan names it already")
    if not args.sources and (args.target is not None or not goes_on):
        missing = "SRC" if args.target else "SRC, DST"
        raise UsageError(f"the following arguments are required: {missing}")
    if args.sources and args.shards is None and args.shard_size is None and not args.append:
        raise UsageError("argument --executor: needs --shards or --shard-size")


def run_of_pack(args: argparse.Namespace, options: PackOptions) -> int:
    if args.plan is not None and not args.quiet:
        output.error(
            "--plan, --task and --commit have become `ffrfs cluster plan`, `run` and `commit`; a "
            "later version removes the old names"
        )
    if args.task:
        return run_task(args)
    if args.commit and args.executor is None:
        return commit_set(args)
    if not args.sources:
        return run_engine(args)
    return run_planned(args, options)


def run_planned(
    args: argparse.Namespace, options: PackOptions, *, makes_shards: bool = True
) -> int:
    """Plan, and make the shards by the engine if there is one and `makes_shards`."""
    from ffrfs.cluster.executors import open_executor
    from ffrfs.errors import CompleteError

    try:
        with nullcontext() if args.executor is None else open_executor(args.executor) as executor:
            if executor is None or args.dry_run or not makes_shards:
                return _write_plan(args, options, executor)
            with _plan(args, options, args.plan, executor) as plan:
                return _pack(args, plan, executor)
    except CompleteError as complete:
        if not args.quiet:
            output.line(str(complete))
        return 1 if complete.missing_count and args.on_error == "record" else 0


@contextmanager
def _plan(
    args: argparse.Namespace, options: PackOptions, path: str | None, executor: Executor | None
) -> Iterator[Plan]:
    """Yield the plan of this command, in the file `path`, or (None) beside the shards."""
    from ffrfs.cluster.kept_plan import kept_plan
    from ffrfs.cluster.planning import make_plan
    from ffrfs.cluster.request import Request

    with ExitStack() as stack:
        with output.progress_bar(args.sources[0], quiet=args.quiet) as found:
            request = Request.of(args.sources, args.target, options)
            options = replace(options, progress=found)
            if path is None:
                plan = stack.enter_context(kept_plan(request, executor, options))
            else:
                plan = stack.enter_context(make_plan(request, options, path, executor))
        yield plan


def _write_plan(args: argparse.Namespace, options: PackOptions, executor: Executor | None) -> int:
    with ExitStack() as stack:
        path = args.plan
        if args.dry_run:
            named = tempfile.TemporaryDirectory(prefix="ffrfs-plan-", dir=args.tmp_dir)
            path = os.path.join(stack.enter_context(named), "plan")
        plan = stack.enter_context(_plan(args, options, path, executor))
        _print_skipped(args, plan)
        if not args.dry_run:
            _print_plan(args, plan, path)
        elif not args.list:
            _print_plan(args, plan, args.target, ", not written (dry run)")
    return 0


def _print_plan(args: argparse.Namespace, plan: Plan, name: str, fate: str = "") -> None:
    if not args.quiet:
        shards = output.count(len(plan), "shard")
        files, size = output.count(plan.file_count, "file"), output.size(plan.byte_count)
        output.line(f"{name}: {shards}, {files}, {size}{fate}")


def run_task(args: argparse.Namespace) -> int:
    from concurrent.futures import ThreadPoolExecutor

    from ffrfs.cluster.packing import make_shards
    from ffrfs.cluster.planned_set import Plan

    index, count = args.task
    with (
        Plan(args.plan) as plan,
        ThreadPoolExecutor(1) as thread,
        output.progress_bar(plan.target, quiet=args.quiet) as bar,
    ):
        with listing_failures():
            rows = make_shards(
                plan,
                range(index, len(plan), count),
                thread,
                progress=bar,
                **_making(args),
            )
        missing = [file for row in rows for file in row.missing]
        if not args.quiet:
            made = sum(row.made is True for row in rows)
            there = f", {len(rows) - made:,} were there" if made < len(rows) else ""
            output.line(f"{plan.target}: {output.count(made, 'shard')} made{there}")
    return _end(args, missing)


def run_engine(args: argparse.Namespace) -> int:
    """Make all shards of the plan `args.plan`, and complete the set."""
    from ffrfs.cluster.executors import open_executor
    from ffrfs.cluster.planned_set import Plan

    with open_executor(args.executor) as executor, Plan(args.plan) as plan:
        return _pack(args, plan, executor)


def commit_set(args: argparse.Namespace) -> int:
    from ffrfs.cluster.manifest import commit
    from ffrfs.cluster.planned_set import Plan

    with Plan(args.plan) as plan:
        summary = commit(plan)
        _print(args, plan, summary)
    return 1 if summary.missing_count and args.on_error == "record" else 0


def _pack(args: argparse.Namespace, plan: Plan, executor: Executor) -> int:
    from ffrfs.cluster.packing import pack_by_plan

    with output.progress_bar(plan.target, quiet=args.quiet) as bar, listing_failures():
        summary, missing = pack_by_plan(plan, executor, progress=bar, **_making(args))
    _print_skipped(args, plan)
    _print(args, plan, summary)
    return _end(args, missing)


def _making(args: argparse.Namespace) -> MakingKeywords:
    return {"on_error": args.on_error, "jobs": args.jobs or _JOBS, "tmp_dir": args.tmp_dir}


def _print_skipped(args: argparse.Namespace, plan: Plan) -> None:
    for path in () if args.quiet else plan.skipped:
        output.error(f"{path}: skipped")


def _print(args: argparse.Namespace, plan: Plan, summary: SetSummary) -> None:
    if args.quiet:
        return
    parts = [
        output.count(summary.file_count, "file"),
        output.count(summary.byte_count, "byte"),
        output.count(summary.shard_count, "shard"),
    ]
    if summary.missing_count:
        parts.append(f"{output.count(summary.missing_count, 'file')} left out")
    output.line(f"{plan.target}: {', '.join(parts)}")


def _end(args: argparse.Namespace, missing: Sequence[Missing]) -> int:
    for file in missing:
        output.error(f"{file.path}: left out: {file.reason}")
    return 1 if missing and args.on_error == "record" else 0


def task_of_tasks(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if match is None or int(match[1]) >= int(match[2]):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a task; write I/N with I from 0 to N - 1, as in 3/64"
        )
    return int(match[1]), int(match[2])
