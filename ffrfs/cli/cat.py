"""`ffrfs cat`: files of a pack to stdout; records of a TFRecord data set, as Examples."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ffrfs.cli import opened_tree, output
from ffrfs.cli.head import records_of, show_records
from ffrfs.cli.number import whole_number
from ffrfs.cli.parser import UsageError

HELP = "write files of a pack to standard output"
DESCRIPTION = """\
Write the files PATH… of PACK to standard output, one after the other. Symbolic links are followed
inside PACK. The command stops at the first damaged file, before its first wrong byte.
"""
EPILOG = """\
With --example, each PATH is the number of a record; the first is 0. A line for each feature shows
its type and first values, as `ffrfs head` does. Records of a compressed file come in the order of
the file.

Examples:
    ffrfs cat imagenet.ffr labels.csv
    ffrfs cat imagenet.ffr train/cat/1.jpg > 1.jpg
    ffrfs cat imagenet.ffr '**/*.csv'
    ffrfs cat --example train.tfrecord 0 2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    opened_tree.add_arguments(parser)
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help="a file in PACK, or a pattern ('train/*/1.jpg', '**/*.csv'); with --example, the "
        "number of a record",
    )
    parser.add_argument(
        "--example",
        action="store_true",
        help="show records of the TFRecord file PACK (of any compression), or of a directory of "
        "them, as Examples or SequenceExamples",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="with --example: print a JSON array with an object per record, which holds all "
        "values; bytes are base64",
    )


def run(args: argparse.Namespace) -> int:
    if args.example:
        return _show_examples(args)
    if args.json:
        raise UsageError("--json needs --example")
    with opened_tree.open_tree(args) as tree:
        paths = opened_tree.named_paths(tree, args.paths, follow_links=True)
        for ino in [tree.file_ino(path) for path in paths]:
            for piece in tree.pieces(ino):
                output.write(piece)
    return 0


def _show_examples(args: argparse.Namespace) -> int:
    try:
        numbers = [whole_number(0)(path) for path in args.paths]
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--example: {error}") from None
    show_records(_records(args.pack, numbers), args.json)
    return 0


def _records(path: str, numbers: list[int]) -> Iterator[tuple[int, bytes]]:
    """Yield the records of these numbers. Raises OptionError for one that does not exist."""
    from ffrfs.errors import OptionError
    from ffrfs.tfrecord.info import compression_of
    from ffrfs.tfrecord.reader import TFRecordReader
    from ffrfs.tfrecord.shards import shard_paths

    files = shard_paths(path)
    if any(compression_of(file) for file in files):
        yield from _scanned(path, numbers)
        return
    with TFRecordReader(files) as reader:
        for number in numbers:
            if number >= len(reader):
                raise OptionError.at(path, f"has no record {number}: it has {len(reader):,}")
            yield number, reader.read_one(number)


def _scanned(path: str, numbers: list[int]) -> Iterator[tuple[int, bytes]]:
    """Yield records of a compressed file, a stream: in its order, each once."""
    from ffrfs.errors import OptionError

    wanted, last = set(numbers), max(numbers)
    count = 0
    for number, record in enumerate(records_of(path)):
        if number in wanted:
            yield number, record
        if number == last:
            return
        count = number + 1
    missing = min(number for number in wanted if number >= count)
    raise OptionError.at(path, f"has no record {missing}: it has {count:,}")
