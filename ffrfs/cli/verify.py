"""`ffrfs verify`: read everything, name every damaged file."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ffrfs.cli import output
from ffrfs.cli.executor_option import add_executor_option
from ffrfs.cli.foreign_file import failure_line
from ffrfs.cli.number import whole_number
from ffrfs.errors import FormatError, text_within
from ffrfs.printable import quoted

if TYPE_CHECKING:
    from ffrfs.folder.verify import VerifyReport
    from ffrfs.tfrecord.verify import BadRecord
    from ffrfs.tfrecord.verify import VerifyReport as TFRecordReport

HELP = "read packs whole and name damaged files"
DESCRIPTION = """\
Read every record of PACK and compare it with its checksum, and compare the index with the records.
The command names every damaged file by path and record, and exits with status 1 if there is one.
"""
EPILOG = """\
Examples:
    ffrfs verify imagenet.ffr
    ffrfs verify --quiet imagenet.ffr imagenet21k/
    ffrfs verify --jobs 4 --json imagenet.ffr
"""

_JOB_LIMIT = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "packs",
        metavar="PACK",
        nargs="+",
        help="a pack, a TFRecord file of any compression, or a directory of either",
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=whole_number(1, _JOB_LIMIT),
        default=0,
        help="number of verifying threads (default: one per core)",
    )
    add_executor_option(parser, "verify the files")
    parser.add_argument(
        "--json", action="store_true", help="print a JSON object; for several packs an array"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print only damaged files")


def run(args: argparse.Namespace) -> int:
    from ffrfs.folder.verify import report_fields, tfrecord_fields
    from ffrfs.tfrecord.shards import is_tfrecord

    tfrecords: list[str] = []
    packs: list[str] = []
    fields: dict[str, dict[str, Any]] = {}
    for pack in args.packs:
        with _noting_failures([pack], args, fields):
            (tfrecords if is_tfrecord(pack) else packs).append(pack)
    reports: dict[str, VerifyReport] = {}
    if packs:
        with _noting_failures(packs, args, fields):
            reports = _verify(packs, args)
    for pack in args.packs:
        if pack in tfrecords:
            found = None
            with _noting_failures([pack], args, fields):
                found = _verify_tfrecord(pack, args)
            if found is None:
                continue
            fields[pack] = tfrecord_fields(pack, found)
            if not (args.json or args.quiet):
                parts = _outcome(found.record_count, found.byte_count, len(found.bad))
                output.line(f"{pack}: {', '.join(parts)}")
        elif pack in reports:
            fields[pack] = report_fields(reports[pack])
            if not args.json:
                _print(reports[pack], args.quiet)
    if args.json:
        output.json_objects([fields[pack] for pack in args.packs])
    return 0 if all(one["good"] for one in fields.values()) else 1


@contextlib.contextmanager
def _noting_failures(
    packs: Sequence[str], args: argparse.Namespace, fields: dict[str, dict[str, Any]]
) -> Iterator[None]:
    """If a pack of several arguments cannot be opened, print that, and note it in `fields`.

    `packs`: those that the block verifies. If there are several, their reports say which one cannot
    be opened, and an exception is of another kind.
    """
    from ffrfs.folder.verify import is_of_no_pack

    try:
        yield
    except (FormatError, OSError) as error:
        if len(args.packs) == 1 or len(packs) > 1 or is_of_no_pack(error):
            raise
        (pack,) = packs
        if not args.json:
            output.error(failure_line(error, "verify"))
        fields[pack] = {"file": pack, "good": False, "error": text_within(error, pack)}


def _verify(packs: list[str], args: argparse.Namespace) -> dict[str, VerifyReport]:
    from ffrfs.folder.verify import verify_packs

    seen: set[str] = set()

    def found(file: str, path: str | None, reason: str) -> None:
        if not args.json:
            bar.clear()
            line = f"{file}: {f'{quoted(path)}: ' if path else ''}{reason}"
            if path is None and file not in seen:  # once: it looks at the file
                seen.add(file)
                line = failure_line(FormatError.at(file, reason), "verify")
            output.error(line)

    title = packs[0] if len(packs) == 1 else f"{len(packs):,} packs"
    with output.progress_bar(title, "records", quiet=args.quiet) as bar:
        if args.executor is not None:
            from ffrfs.cluster import verifying
            from ffrfs.cluster.executors import open_executor

            with open_executor(args.executor) as executor:
                reports = verifying.verify_packs(packs, executor, bar.progress, found)
        else:
            reports = verify_packs(packs, bar.progress, args.jobs, found=found)
    return {report.file: report for report in reports}


def _print(report: VerifyReport, quiet: bool) -> None:
    if report.set_error is not None:
        output.error(f"{report.file}: {report.set_error}")
    is_closed = report.packs[0].file == report.file and report.packs[0].error is not None
    if quiet or is_closed:
        return
    parts = []
    if len(report.packs) > 1:
        parts.append(output.count(len(report.packs), "pack"))
    if closed_count := sum(pack.error is not None for pack in report.packs):
        parts.append(f"{closed_count:,} of them cannot be opened")
    parts += _outcome(report.record_count, report.byte_count, report.bad_count)
    output.line(f"{report.file}: {', '.join(parts)}")


def _outcome(record_count: int, byte_count: int, bad_count: int) -> list[str]:
    return [
        output.count(record_count, "record"),
        output.count(byte_count, "byte"),
        f"{bad_count:,} of them damaged" if bad_count else "all records good",
    ]


def _verify_tfrecord(pack: str, args: argparse.Namespace) -> TFRecordReport:
    from ffrfs.folder.verify import verify_tfrecord

    def found(bad: BadRecord) -> None:
        if not args.json:
            error = FormatError.at(bad.file, bad.reason, bad.record)
            rest = "; what follows could not be checked" if bad.is_last else ""
            bar.clear()
            output.error(failure_line(error, "verify") + rest)

    with output.progress_bar(pack, "records", quiet=args.quiet) as bar:
        if args.executor is not None:
            from ffrfs.cluster.executors import open_executor
            from ffrfs.cluster.verifying import verify_tfrecords

            with open_executor(args.executor) as executor:
                return verify_tfrecords(pack, executor, bar.progress, found)
        return verify_tfrecord(pack, bar.progress, found)
