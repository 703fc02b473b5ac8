"""`ffrfs cluster`: make a pack set by a plan, with many machines.

Not here: the work by a plan (planned_pack.py), the options of packing (pack.py).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from ffrfs.cli import output, pack, planned_pack
from ffrfs.cli.cleaning_up import cleaning_up
from ffrfs.cli.executor_option import add_executor_option
from ffrfs.cli.number import whole_number
from ffrfs.cli.parser import Parser, UsageError
from ffrfs.cli.remote_options import add_remote_options

HELP = "make a pack set with many machines, by a plan"
DESCRIPTION = """\
Make a pack set with many machines: plan it, run the tasks of the plan anywhere, in any order, as
often as needed, and commit. `ffrfs pack --executor` does all of it in one command.
"""
EPILOG = """\
All machines need ffrfs, and see the source, the plan and the set by the same paths or URLs. See
docs/cluster.md.

Examples:
    ffrfs cluster plan set.plan --shards 1000 /shared/raw /shared/packed/
    ffrfs cluster run set.plan --task 3/64
    ffrfs cluster commit set.plan
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(
        title="actions",
        dest="action",
        metavar="ACTION",
        help=f"one of {', '.join(_ACTIONS)}",
        required=True,
        parser_class=Parser,
    )
    for name, action in _ACTIONS.items():
        its = actions.add_parser(
            name,
            help=action.help,
            description=action.description,
            epilog=action.epilog,
            common=action.common,
        )
        its.add_argument("plan", metavar="PLAN", help="the file of the plan")
        action.add_arguments(its)
        add_remote_options(its)
        its.set_defaults(usage_error=its.error)


def run(args: argparse.Namespace) -> int:
    with cleaning_up():
        return _ACTIONS[args.action].run(args)


def _add_to_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sources", metavar="SRC", nargs="+", help="as in `ffrfs pack`")
    parser.add_argument("target", metavar="DST", help="the directory of the set, or its URL")
    pack.add_packing_options(parser)
    add_executor_option(parser, "list SRC")
    parser.set_defaults(on_error="stop")


def _plan(args: argparse.Namespace) -> int:
    if args.shards is None and args.shard_size is None and not args.append:
        raise UsageError("--shards, --shard-size or --append is required")
    pack.check_lists(args)
    folders = pack.folders_beside_each_other(args)
    return planned_pack.run_planned(args, pack.options_of(args, folders), makes_shards=False)


def _add_to_run(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--task",
        metavar="I/N",
        type=planned_pack.task_of_tasks,
        help="make the shards of task I of N, counted from 0: I, I + N, I + 2 N and so on",
    )
    add_executor_option(which, "make all shards, and complete the set,")
    planned_pack.add_on_error(parser)
    parser.add_argument(
        "--jobs", metavar="N", type=whole_number(1), help="reading threads of a task (default: 4)"
    )
    parser.add_argument(
        "--tmp-dir",
        metavar="DIR",
        help="if DST is a URL: make the packs in DIR (default: $TMPDIR, or /tmp)",
    )
    _add_quiet(parser)


def _run(args: argparse.Namespace) -> int:
    return planned_pack.run_task(args) if args.task else planned_pack.run_engine(args)


def _add_to_commit(parser: argparse.ArgumentParser) -> None:
    planned_pack.add_on_error(parser)
    _add_quiet(parser)


def _add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")


def _add_to_status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _status(args: argparse.Namespace) -> int:
    from ffrfs.cluster.manifest import named, progress_of
    from ffrfs.cluster.planned_set import Plan

    with Plan(args.plan) as plan:
        found = progress_of(plan)
    shards = output.count(len(plan), "shard")
    if args.json:
        fields = {"target": plan.target, "shards": len(plan), **found._asdict()}
        output.json_object(fields)
    elif found.is_complete:
        output.line(f"{plan.target}: complete, {shards}")
    elif found.missing:
        missing = f"{len(found.missing):,} missing: number {named(found.missing)}"
        output.line(f"{plan.target}: {shards}, {missing}")
    else:
        commit = f"complete the set by `ffrfs cluster commit {args.plan}`"
        output.line(f"{plan.target}: {shards}, none is missing; {commit}")
    return 0 if found.is_complete else 1


class _Action(NamedTuple):
    help: str
    description: str
    epilog: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    common: AbstractSet[str] | None = None  # as in Parser


_ACTIONS = {
    "plan": _Action(
        "write the plan of a set: which files go into which shard",
        "Write to PLAN which files of SRC go into which shard of the pack set DST. No shard is "
        "made.",
        """\
`ffrfs pack --help-all` explains SRC, DST and the options. A PLAN of a SRC with a query, which may
be a key (a signed URL), has mode 0600.

Examples:
    ffrfs cluster plan set.plan --shards 1000 /shared/raw /shared/packed/
    ffrfs cluster plan set.plan --shard-size 10G raw.tar s3://bucket/packed/
""",
        _add_to_plan,
        _plan,
        {
            "--include",
            "--exclude",
            "--shards",
            "--shard-size",
            "--append",
            "--dry-run",
            "--executor",
        },
    ),
    "run": _Action(
        "make shards of a plan: those of one task, or all by an engine",
        "Make shards of the plan. Shards that are whole and of this plan are kept.",
        """\
Run it again after any end: it makes what is missing. Two tasks for one shard make the same bytes.

Examples:
    ffrfs cluster run set.plan --task 3/64
    ffrfs cluster run set.plan --executor ray
""",
        _add_to_run,
        _run,
    ),
    "commit": _Action(
        "complete the set, when all its shards exist",
        "Complete the set of the plan: write its manifest, when all shards exist.",
        """\
If shards are missing, nothing is written, and an error names them, with status 1.

Examples:
    ffrfs cluster commit set.plan
    ffrfs cluster commit --on-error record set.plan
""",
        _add_to_commit,
        planned_pack.commit_set,
    ),
    "status": _Action(
        "show which shards of a plan are missing",
        "Show which shards of the plan are missing. Exit status 0 says that the set is complete, "
        "1 that it is not yet.",
        """\
Shard K is made by task K modulo N of N.

Examples:
    ffrfs cluster status set.plan
    ffrfs cluster status --json set.plan
""",
        _add_to_status,
        _status,
    ),
}
