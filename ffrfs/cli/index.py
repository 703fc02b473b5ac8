"""`ffrfs index`: write sidecars, so that opening costs nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ffrfs.cli import output
from ffrfs.cli.executor_option import add_executor_option, listing_failures

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
    def seen(file: str, sidecar: str | None) -> None:
        outcome = f"wrote its index to {sidecar}" if sidecar else "contains an index already"
        if not args.quiet:
            output.line(f"{file}: {outcome}")

    if args.executor is not None:
        from ffrfs.cluster.executors import open_executor
        from ffrfs.cluster.indexing import write_sidecars

        with open_executor(args.executor) as executor, listing_failures():
            write_sidecars(args.files, executor, chunks=args.chunks, seen=seen)
    else:
        for path in args.files:
            for file, sidecar in _written(path, args.chunks):
                seen(file, sidecar)
    return 0


def _written(path: str, chunks: bool) -> Iterator[tuple[str, str | None]]:
    """Yield each file, and its sidecar if it needed one."""
    from ffrfs.folder import sidecar
    from ffrfs.folder.tree import pack_files
    from ffrfs.tfrecord.shards import is_tfrecord, shard_paths
    from ffrfs.tfrecord.sidecar import write_sidecar

    if is_tfrecord(path):
        for file in shard_paths(path):
            yield file, write_sidecar(file)
        return
    for file in pack_files(path):
        yield file, None if sidecar.carries_index(file) else sidecar.write_sidecar(file, chunks)
