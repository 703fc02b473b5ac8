"""`ffrfs pack`: a folder or an archive into one file, or into a set of them."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from ffrfs.cli import output

if TYPE_CHECKING:
    from ffrfs.folder.pack import PackSummary

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EPILOG = """\
SRC is a folder; a tar archive, also compressed by gzip, bzip2, xz or Zstandard; a zip
archive; or "-", an archive on standard input. Nothing of an archive is unpacked to disk.

A pattern is a shell's (*, ?, [abc]): without a slash for the name of a file or folder,
with one for the path below SRC. An excluded folder is not entered; an included one is
packed whole.

With --shards or --shard-size DST is a new folder, of packs that can each be read alone.
"""

_SIZE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "pack",
        help="pack a folder into one file",
        description="Pack all files below SRC into DST, which appears when it is complete.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="SRC")
    parser.add_argument("target", metavar="DST.ffr")
    parser.add_argument(
        "--include", metavar="PATTERN", action="append", help="pack these only; may be repeated"
    )
    parser.add_argument(
        "--exclude", metavar="PATTERN", action="append", help="leave these out; may be repeated"
    )
    parser.add_argument("--jobs", metavar="N", type=_count, help="threads that read")
    parser.add_argument(
        "--skip-special",
        action="store_true",
        help="leave out sockets, FIFOs, devices and names that are not UTF-8 "
        "(otherwise they are an error)",
    )
    parser.add_argument(
        "--symlinks",
        choices=["follow", "keep"],
        default="follow",
        help="pack what symbolic links lead to (default), or the links",
    )
    parser.add_argument(
        "--dedup", action="store_true", help="store files that are equal byte for byte once"
    )
    parser.add_argument(
        "--order",
        metavar="path|size|FILE",
        help="how the files follow each other: by path (default), the smallest first, or as FILE "
        "names their paths, one a line; an archive keeps its own order",
    )
    parser.add_argument(
        "--reproducible",
        action="store_true",
        help="the same files give the same bytes: times are 1970 or SOURCE_DATE_EPOCH (which, "
        "where it is set, asks for it too), permissions 0644 or 0755",
    )
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--shards", metavar="N", type=_count, help="write N packs, about equal")
    parts.add_argument(
        "--shard-size", metavar="SIZE", type=_size, help="write packs of at most SIZE (10G)"
    )
    parser.add_argument(
        "--append",
        action="store_true",
        help="add packs to the folder of packs DST, one unless --shards or --shard-size say more",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    parser.set_defaults(func=run, usage_error=parser.error)


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{count}: must be at least 1")
    return count


def _size(text: str) -> int:
    number = text.rstrip("KMGTkmgt")
    unit = _SIZE_UNITS.get(text[len(number) :].upper())
    if unit is None or not number.isascii() or not number.isdigit() or int(number) < 1:
        raise argparse.ArgumentTypeError(f"{text}: no size; write 500M or 10G")
    return int(number) * unit


def run(args: argparse.Namespace) -> int:
    with _cleaning_up():
        summary = _pack(args)
    if not args.quiet:
        for path in summary.skipped:
            output.error(f"{path}: skipped")
        output.line(f"{args.target}: {_text(summary)}")
    return 0


@contextlib.contextmanager
def _cleaning_up() -> Iterator[None]:
    """Let signals that would end us at once end us in good order."""

    def end(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    unhandled = [number for number, handler in before.items() if handler is signal.SIG_DFL]
    for number in unhandled:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in unhandled:
            signal.signal(number, signal.SIG_DFL)


def _pack(args: argparse.Namespace) -> PackSummary:
    from ffrfs.folder.pack import pack_archive, pack_folder

    options = {
        "verbose": output.show_progress() and not args.quiet,
        "include": args.include,
        "exclude": args.exclude,
        "jobs": args.jobs,
        "skip_special": args.skip_special,
        "symlinks": args.symlinks,
        "dedup": args.dedup,
        "reproducible": args.reproducible,
        "shards": args.shards,
        "shard_size": args.shard_size,
        "append": args.append,
    }
    if args.source != "-" and not _is_file(args.source):
        return pack_folder(args.source, args.target, order=args.order, **options)
    if args.order is not None:
        args.usage_error(f"argument --order: {args.source} is an archive, and keeps its own")
    return pack_archive(args.source, args.target, **options)


def _is_file(path: str) -> bool:
    return os.path.exists(path) and not os.path.isdir(path)


def _text(summary: PackSummary) -> str:
    parts = [output.count(summary.file_count, "file"), output.count(summary.byte_count, "byte")]
    if summary.link_count:
        parts.append(output.count(summary.link_count, "link"))
    if summary.shared_count:
        saved = summary.byte_count - summary.stored_byte_count
        parts.append(
            f"{output.count(summary.shared_count, 'file')} ({output.count(saved, 'byte')}) "
            "stored with their like"
        )
    if summary.shard_count:
        parts.append(output.count(summary.shard_count, "shard"))
    return ", ".join(parts)
