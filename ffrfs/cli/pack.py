"""`ffrfs pack`: a folder into one file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ffrfs.cli import output

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EPILOG = """\
A pattern is a shell's (*, ?, [abc]): without a slash for the name of a file or folder,
with one for the path below SRC. An excluded folder is not entered; an included one is
packed whole. Symbolic links are followed.
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "pack",
        help="pack a folder into one file",
        description="Pack all files below SRC into DST.ffr, which appears when it is complete.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="SRC")
    parser.add_argument("file", metavar="DST.ffr")
    parser.add_argument(
        "--include", metavar="PATTERN", action="append", help="pack these only; may be repeated"
    )
    parser.add_argument(
        "--exclude", metavar="PATTERN", action="append", help="leave these out; may be repeated"
    )
    parser.add_argument("--jobs", metavar="N", type=_jobs, help="threads that read")
    parser.add_argument(
        "--skip-special",
        action="store_true",
        help="leave out sockets, FIFOs, devices and names that are not UTF-8 "
        "(otherwise they are an error)",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    parser.set_defaults(func=run)


def _jobs(text: str) -> int:
    jobs = int(text)
    if jobs < 1:
        raise argparse.ArgumentTypeError(f"{jobs}: must be at least 1")
    return jobs


def run(args: argparse.Namespace) -> int:
    from ffrfs.folder.pack import pack_folder

    summary = pack_folder(
        args.folder,
        args.file,
        verbose=output.show_progress() and not args.quiet,
        include=args.include,
        exclude=args.exclude,
        jobs=args.jobs,
        skip_special=args.skip_special,
    )
    if not args.quiet:
        for path in summary.skipped:
            output.error(f"{path}: skipped")
        files = output.count(summary.file_count, "file")
        output.line(f"{args.file}: {files}, {output.count(summary.byte_count, 'byte')}")
    return 0
