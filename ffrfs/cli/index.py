"""`ffrfs index`: sidecars, so that opening costs nothing."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ffrfs.cli import output

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "index",
        help="write an index for packs that carry none, or for TFRecord files",
        description="Write an index for each FILE, a packed file or a folder of them, that carries "
        "none: FILE.idx beside it, or in the cache directory where that is read-only. Then opening "
        "FILE takes no time and little memory, however many files it holds. Of a TFRecord file, or "
        "a folder of them, FILE.idx says where its records begin, as tfrecord2idx does: then "
        "opening it reads nothing else.",
    )
    parser.add_argument("files", metavar="FILE", nargs="+")
    parser.add_argument(
        "--chunks",
        action="store_true",
        help="of packs: read the larger files, and write down a checksum of each 1 MiB, so that "
        "reading a part of one verifies that part only",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from ffrfs.convert.kind import is_tfrecord

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
            output.line(f"{file}: its index is written to {sidecar}")


def _index_packs(path: str, chunks: bool, quiet: bool) -> None:
    from ffrfs.folder.sidecar import carries_index, write_sidecar
    from ffrfs.folder.tree import pack_files

    for file in pack_files(path):
        if carries_index(file):
            outcome = "carries an index of its own"
        else:
            outcome = f"its index is written to {write_sidecar(file, chunks)}"
        if not quiet:
            output.line(f"{file}: {outcome}")
