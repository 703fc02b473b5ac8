"""`ffrfs index`: sidecars, so that opening costs nothing."""

from __future__ import annotations

import argparse

from ffrfs.console import output
from ffrfs.console.executor_option import add_executor_option, listing_failures

HELP = "write index sidecars for packs without an index, and for TFRecord files"
DESCRIPTION = """\
Write an index for each FILE that contains none, as the sidecar FILE.idx beside it, or in the cache
directory if its own directory is read-only. A pack with an index opens at once and in little
memory, however many files it holds. The sidecar of a TFRecord file lists where its records begin,
in the format of tfrecord2idx; opening the file then reads nothing else.
"""
EPILOG = """\
Examples:
    ffrfs index old.ffr
    ffrfs index --chunks videos/
    ffrfs index train.tfrecord
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="a pack, a TFRecord file, or a directory of either",
    )
    parser.add_argument(
        "--chunks",
        action="store_true",
        help="also store a checksum per MiB of large files in packs, so that reading a part of "
        "a file verifies that part only",
    )
    add_executor_option(parser, "write the indexes")
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")


def run(args: argparse.Namespace) -> int:
    from ffrfs.convert.kind import is_tfrecord

    if args.executor is not None:
        _index_by(args)
        return 0
    for path in args.files:
        if is_tfrecord(path):
            _index_tfrecord(path, args.quiet)
        else:
            _index_packs(path, args.chunks, args.quiet)
    return 0


def _index_tfrecord(path: str, quiet: bool) -> None:
    from ffrfs.tfrecord.shards import shard_paths
    from ffrfs.tfrecord.sidecar import write_sidecar

    for file in shard_paths(path):
        sidecar = write_sidecar(file)
        if not quiet:
            output.line(f"{file}: wrote its index to {sidecar}")


def _index_packs(path: str, chunks: bool, quiet: bool) -> None:
    from ffrfs.folder.sidecar import carries_index, write_sidecar
    from ffrfs.folder.tree import pack_files

    for file in pack_files(path):
        if carries_index(file):
            outcome = "contains an index already"
        else:
            outcome = f"wrote its index to {write_sidecar(file, chunks)}"
        if not quiet:
            output.line(f"{file}: {outcome}")


def _index_by(args: argparse.Namespace) -> None:
    from ffrfs.cluster.executors import open_executor
    from ffrfs.cluster.indexing import write_sidecars

    def seen(file: str, sidecar: str | None) -> None:
        outcome = f"wrote its index to {sidecar}" if sidecar else "contains an index already"
        if not args.quiet:
            output.line(f"{file}: {outcome}")

    with open_executor(args.executor) as executor, listing_failures():
        write_sidecars(args.files, executor, chunks=args.chunks, seen=seen)
