"""`ffrfs head`: the first records of a TFRecord data set, as Examples."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from itertools import islice

from ffrfs.cli import output
from ffrfs.cli.number import whole_number

HELP = "show the first records of a TFRecord file"
DESCRIPTION = """\
Show the first records of FILE, Examples or SequenceExamples. No other record is read.
"""
EPILOG = """\
A line for each feature, sorted by name, shows its type, the number of values if it is not one,
and the first values: text in quotation marks, other bytes as their size and kind (JPEG, PNG).
`ffrfs cat --example` shows any record in this way.

Examples:
    ffrfs head train.tfrecord
    ffrfs head -n 1 train.tfrecord.gz
    ffrfs head --json train.tfrecord
"""

_COUNT = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a TFRecord file of any compression, a directory of them, or - for standard input",
    )
    parser.add_argument(
        "-n",
        metavar="COUNT",
        dest="count",
        type=whole_number(1),
        default=_COUNT,
        help="the number of records (default: %(default)s)",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print a JSON array with an object per record, which holds all values; bytes are "
        "base64",
    )


def run(args: argparse.Namespace) -> int:
    show_records(enumerate(islice(records_of(args.file), args.count)), args.json)
    return 0


def records_of(path: str) -> Iterator[bytes]:
    """Yield all records of a data set, of any compression, one after the other."""
    from ffrfs.tfrecord.iterator import standard_input_iterator, tf_record_iterator
    from ffrfs.tfrecord.shards import shard_paths

    if path == "-":
        yield from standard_input_iterator()
        return
    for file in shard_paths(path):
        with tf_record_iterator(file) as records:
            yield from records


def show_records(records: Iterable[tuple[int, bytes]], as_json: bool) -> None:
    """Print records, which come with their numbers."""
    from ffrfs.convert.example_text import lines

    if as_json:
        output.json_array(_fields(number, record) for number, record in records)
        return
    for place, (number, record) in enumerate(records):
        if place > 0:
            output.line("")
        output.lines(lines(number, record))


def _fields(number: int, record: bytes) -> dict[str, object]:
    from ffrfs.convert.example_json import encode_base64, parse_record, to_json

    message = parse_record(record)
    fields = {"bytes": encode_base64(record)} if message is None else to_json(message)
    return {"record": number, "size": len(record), **fields}
