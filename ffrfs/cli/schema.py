"""`ffrfs schema`: statistics, schemas and anomalies of TFRecord data sets, as TFDV has them."""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from ffrfs.cli import output
from ffrfs.cli.number import whole_number
from ffrfs.cli.parser import UsageError
from ffrfs.errors import FormatError

if TYPE_CHECKING:
    from ffrfs.schema.messages import Proto
    from ffrfs.schema.tables import Rows

HELP = "infer, check and show schemas and statistics of TFRecord data sets"
DESCRIPTION = """\
Compute statistics of TFRecord files, infer a schema from them, and find where data and schema, or
two data sets, do not agree. Needs the package tensorflow-metadata: pip install 'ffrfs[schema]'.
"""
EPILOG = """\
ACTION is one of
  stats     compute statistics: counts, quantiles, histograms, frequent values
  infer     infer a schema: types, presence, numbers of values, domains
  validate  compare data with --schema FILE; status 1 if there are anomalies
  show      show a file of a schema, of statistics or of anomalies

For stats, infer and validate, FILEs are one data set: TFRecord files of any compression, or
directories of them; or one file of statistics, which then are not computed again. Files of
schemas, statistics and anomalies are those of TensorFlow Data Validation: text (.pbtxt), JSON
(.json), binary (.pb).

Examples:
    ffrfs schema stats -o train.stats.pb train/
    ffrfs schema infer -o schema.pbtxt train.stats.pb
    ffrfs schema validate --schema schema.pbtxt new.tfrecord
    ffrfs schema validate --schema schema.pbtxt --previous monday/ tuesday/
    ffrfs schema show schema.pbtxt
"""

_JOB_LIMIT = 64
_DOMAIN_SIZE_MAX = 100  # TFDV's default
_MESSAGE_ENDS = (".pb", ".pbtxt", ".txt", ".json")
# Options of one action, with their defaults.
_OWN_OPTIONS = {
    "schema": ("validate", None),
    "previous": ("validate", None),
    "serving": ("validate", None),
    "environment": ("validate", None),
    "max_domain": ("infer", None),
    "no_shape": ("infer", False),
}

COMMON = {"--output", "--force", "--json", "--schema", "--previous", "--jobs", "--on-error"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", metavar="ACTION", choices=_ACTIONS, help=f"one of {', '.join(_ACTIONS)}"
    )
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="TFRecord files, or directories of them; or a file of statistics; for show, files "
        "of schemas, statistics and anomalies",
    )
    _add_output(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--schema", metavar="FILE", help="validate: the schema")
    parser.add_argument(
        "--previous",
        metavar="FILE",
        help="validate: earlier data, or its statistics; distances to it are compared with the "
        "drift_comparator of each feature",
    )
    parser.add_argument(
        "--serving",
        metavar="FILE",
        help="validate: data of serving, or its statistics, for the skew_comparator",
    )
    parser.add_argument(
        "--environment",
        metavar="NAME",
        help="validate: expect the features that the schema has in this environment",
    )
    parser.add_argument(
        "--max-domain",
        metavar="N",
        type=whole_number(0, 1000),
        help="infer: strings with at most N different values have a domain "
        f"(default: {_DOMAIN_SIZE_MAX})",
    )
    parser.add_argument(
        "--no-shape",
        action="store_true",
        help="infer: features that always have the same number of values get a value_count, not a "
        "shape",
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=whole_number(1, _JOB_LIMIT),
        help="number of reading processes (default: one per core); the result is the same",
    )
    parser.add_argument(
        "--on-error",
        choices=("raise", "skip"),
        default="raise",
        help="how to treat a damaged record, or a record that is not an Example: raise ends the "
        "command, skip leaves the record out and counts it (default: %(default)s)",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the result to FILE; its extension sets the format (.pbtxt, .json, .pb)",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace the file of --output (by default an error)"
    )


def run(args: argparse.Namespace) -> int:
    for name, (action, default) in _OWN_OPTIONS.items():
        if args.action != action and getattr(args, name) != default:
            raise UsageError(f"--{name.replace('_', '-')}: is for {action}, not for {args.action}")
    if args.action == "validate" and args.schema is None:
        raise UsageError("validate: needs a schema; add --schema FILE, or make one with infer")
    if args.action == "show" and args.output is not None:
        raise UsageError("--output: is not for show")
    if args.force and args.output is None:
        raise UsageError("--force: needs --output")
    if args.output is not None:
        from ffrfs.files.replacing import may_replace

        may_replace(args.output, args.force)  # before all data is read
    importlib.import_module("ffrfs.schema")
    return _ACTIONS[args.action](args)


def _stats(args: argparse.Namespace) -> int:
    statistics = _statistics(args.files, args)
    _give(statistics, args, _print_statistics)
    return 0


def _infer(args: argparse.Namespace) -> int:
    from ffrfs.schema import infer_schema
    from ffrfs.schema.messages import to_text

    limit = _DOMAIN_SIZE_MAX if args.max_domain is None else args.max_domain
    schema = infer_schema(_statistics(args.files, args), not args.no_shape, limit)
    _give(schema, args, lambda found: _print_text(to_text(found)))
    return 0


def _validate(args: argparse.Namespace) -> int:
    from ffrfs.schema import Schema, load, validate_statistics

    schema = load(args.schema, Schema)  # before all data is read
    anomalies = validate_statistics(
        _statistics(args.files, args),
        schema,
        args.environment,
        _statistics([args.previous], args) if args.previous is not None else None,
        _statistics([args.serving], args) if args.serving is not None else None,
    )
    _give(anomalies, args, _print_anomalies)
    has_any = anomalies.anomaly_info or anomalies.HasField("dataset_anomaly_info")
    return 1 if has_any else 0


def _show(args: argparse.Namespace) -> int:
    from ffrfs.schema.messages import Schema, Statistics, load_any, to_json

    if args.json:
        texts = [to_json(load_any(file)).rstrip() for file in args.files]
        _print_text(texts[0] if len(texts) == 1 else f"[{','.join(texts)}]")
        return 0
    for number, file in enumerate(args.files):
        found = load_any(file)
        if number > 0:
            output.line("")
        if isinstance(found, Schema):
            _print_schema(found)
        elif isinstance(found, Statistics):
            _print_statistics(found)
        else:
            _print_anomalies(found)
    return 0


def _statistics(files: list[str], args: argparse.Namespace) -> Proto:
    """Return the statistics in a file, or those of the records of TFRecord files."""
    from ffrfs.schema import Statistics, load
    from ffrfs.schema.feature_view import dataset_of

    stored = [file for file in files if file.endswith(_MESSAGE_ENDS) and not os.path.isdir(file)]
    if not stored:
        return _generated(files, args)
    if len(files) > 1:
        raise FormatError.at(stored[0], "a file of statistics is a data set; give it alone")
    found = load(stored[0], Statistics)
    dataset_of(found, stored[0])  # raises an error that names the fault of the file
    return found


def _generated(files: list[str], args: argparse.Namespace) -> Proto:
    from ffrfs.schema import generate_statistics

    jobs = args.jobs or min(_JOB_LIMIT, len(os.sched_getaffinity(0)))
    records = size = 0
    with output.progress_bar(files[0], "records") as bar:

        def progress(count: int, more: int) -> None:
            nonlocal records, size
            records += count
            size += more
            bar(records, 0, size, 0)

        found = generate_statistics(
            files, jobs=jobs, on_error=args.on_error, name=files[0], progress=progress
        )
    if found.skipped_count:
        output.error(f"{files[0]}: left out {output.count(found.skipped_count, 'damaged record')}")
    return found.statistics


def _give(message: Proto, args: argparse.Namespace, show: Callable[[Proto], None]) -> None:
    """Write a result, or print it."""
    from ffrfs.schema.messages import store, to_json

    if args.output is not None:
        store(args.output, message, force=args.force)
    if args.json:
        _print_text(to_json(message))
    elif args.output is None or args.action == "validate":
        show(message)


def _print_text(text: str) -> None:
    output.lines(text.removesuffix("\n").split("\n"))


def _print_schema(schema: Proto) -> None:
    from ffrfs.schema.tables import domain_rows, schema_rows

    _print_tables(schema_rows(schema), domain_rows(schema))


def _print_statistics(statistics: Proto) -> None:
    from ffrfs.schema.feature_view import dataset_of
    from ffrfs.schema.tables import number_rows, string_rows

    output.line(output.count(dataset_of(statistics).num_examples, "Example"))
    output.line("")
    _print_tables(number_rows(statistics), string_rows(statistics))


def _print_anomalies(anomalies: Proto) -> None:
    from ffrfs.schema.tables import anomaly_rows, distance_rows

    rows = anomaly_rows(anomalies)
    if len(rows) == 1:
        output.line("no anomalies")
    _print_tables(rows, distance_rows(anomalies))


def _print_tables(*tables: Rows) -> None:
    filled = [rows for rows in tables if len(rows) > 1]  # the other tables have titles only
    for number, rows in enumerate(filled):
        if number > 0:
            output.line("")
        output.lines(output.table(rows))


_ACTIONS = {"stats": _stats, "infer": _infer, "validate": _validate, "show": _show}
