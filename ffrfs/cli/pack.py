"""`ffrfs pack`: a folder or an archive into one file, or into a set of them."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from ffrfs.cli import output
from ffrfs.cli.number import whole_number

if TYPE_CHECKING:
    from ffrfs.packing.pack import PackSummary

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EPILOG = """\
SRC is a directory; a tar archive, plain or compressed by gzip, bzip2, xz or Zstandard; a zip
archive; or "-" for an archive on standard input. No archive is unpacked to disk.

PATTERN is a shell pattern (*, ?, [abc]). Without a slash it matches the name of a file or
directory, with a slash the path below SRC ("./train" and "/train" are the "train" of SRC itself).
An excluded directory is skipped with all that is in it; an included directory is packed whole. A
PATTERN of --include that matches nothing is an error.

A pack at DST is replaced, and so is an empty file. Any other file there is an error,
unless --force is given.

With --shards or --shard-size, DST is a new directory: a pack set. Each of its packs can be read
alone.

Examples:
    ffrfs pack ~/imagenet imagenet.ffr
    ffrfs pack --shards 64 --exclude '*.tmp' ~/imagenet21k imagenet21k/
    ssh host tar -c data | ffrfs pack - data.ffr
"""

_SIZE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "pack",
        help="pack a directory or an archive into one file",
        description="Pack all files of SRC into DST. DST appears when it is complete.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "source", metavar="SRC", help="a directory, a tar or zip archive, or - for standard input"
    )
    parser.add_argument("target", metavar="DST.ffr", help="the pack to write")
    _add_selection(parser)
    parser.add_argument("--jobs", metavar="N", type=whole_number(1), help="reading threads")
    parser.add_argument("--dedup", action="store_true", help="store files with equal contents once")
    parser.add_argument(
        "--order",
        metavar="path|size|FILE",
        help="order of files in the pack: by path (default), by size with the smallest first, or "
        "a file listing one path per line; unlisted files follow; an archive keeps its own order",
    )
    parser.add_argument(
        "--reproducible",
        action="store_true",
        help="make packing deterministic: set times to 1970 or SOURCE_DATE_EPOCH, and permissions "
        "to 0644 or 0755; the default if SOURCE_DATE_EPOCH is set",
    )
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument(
        "--shards", metavar="N", type=whole_number(1), help="write N packs of about equal size"
    )
    parts.add_argument(
        "--shard-size", metavar="SIZE", type=_size, help="write packs of at most SIZE, as in 10G"
    )
    parser.add_argument(
        "--append",
        action="store_true",
        help="add packs to the pack set DST: one, or as many as --shards or --shard-size ask for",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace DST.ffr also if it is a file that is not a pack (by default an error)",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    parser.set_defaults(func=run, usage_error=parser.error)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    """What of SRC is packed."""
    parser.add_argument(
        "--include",
        metavar="PATTERN",
        action="append",
        help="pack only files that match; may be repeated",
    )
    parser.add_argument(
        "--exclude",
        metavar="PATTERN",
        action="append",
        help="leave out files that match; may be repeated",
    )
    parser.add_argument(
        "--skip-special",
        action="store_true",
        help="leave out sockets, FIFOs, devices and names that are not UTF-8 "
        "(by default they are an error)",
    )
    parser.add_argument(
        "--symlinks",
        choices=["inside", "follow", "keep", "skip"],
        default="inside",
        help="pack the targets of symbolic links, where a link that leads out of SRC is an error "
        "(inside, the default) or is followed, too (follow); or pack the links (keep); or leave "
        "them out (skip); no link leads out of an archive, so follow means inside there",
    )


def _size(text: str) -> int:
    number = text.rstrip("KMGTkmgt")
    unit = _SIZE_UNITS.get(text[len(number) :].upper())
    if unit is None or not number.isascii() or not number.isdigit() or int(number) < 1:
        raise argparse.ArgumentTypeError(f"{text}: not a size; use for example 500M or 10G")
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
    from ffrfs.packing.pack import pack_archive, pack_folder

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
        "force": args.force,
    }
    if args.source != "-" and not _is_file(args.source):
        return pack_folder(args.source, args.target, order=args.order, **options)
    if args.order is not None:
        args.usage_error(f"argument --order: {args.source} is an archive, and keeps its own order")
    return pack_archive(args.source, args.target, **options)


def _is_file(path: str) -> bool:
    return os.path.exists(path) and not os.path.isdir(path)


def _text(summary: PackSummary) -> str:
    parts = [output.count(summary.file_count, "file"), output.count(summary.byte_count, "byte")]
    for links, fate in (
        (summary.followed_link_count, "followed"),
        (summary.link_count, "kept"),
        (summary.left_out_link_count, "left out"),
    ):
        parts += [f"{output.count(links, 'link')} {fate}"] if links else []
    if summary.shared_count:
        saved = summary.byte_count - summary.stored_byte_count
        parts.append(
            f"{output.count(summary.shared_count, 'file')} ({output.count(saved, 'byte')}) "
            "stored with their like"
        )
    if summary.shard_count:
        parts.append(output.count(summary.shard_count, "shard"))
    return ", ".join(parts)
