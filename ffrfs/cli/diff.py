"""`ffrfs diff`: the differences of two packs, or of a pack and a directory."""

from __future__ import annotations

import argparse
import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from ffrfs.cli import output

if TYPE_CHECKING:
    from ffrfs.folder.tree import PackTree

HELP = "compare packs and directories"
DESCRIPTION = """\
Compare names, kinds, sizes and contents of two packs, pack sets or directories. Nothing is
unpacked: packs know the checksums of their files. Exit status 1 if they differ.
"""
EPILOG = """\
Each line has a path, after "-" if only A has it, "+" if only B has it, or "!" if both have it and
it differs; the line then names the difference. Times and permissions are not compared, and links
are compared as links.

Examples:
    ffrfs diff old.ffr new.ffr
    ffrfs diff ~/imagenet imagenet.ffr
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name in ("A", "B"):
        parser.add_argument(
            name.lower(), metavar="PACK", help="a pack, a directory of packs, or a directory"
        )
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def run(args: argparse.Namespace) -> int:
    from ffrfs.folder.compare import compare

    marks = {"first": "-", "second": "+", "both": "!"}
    status = 0
    with _side(args.a) as first, _side(args.b) as second:
        for found in compare(first, second):
            status = 1
            if args.quiet:
                break
            reason = f"  ({found.reason})" if found.reason else ""
            output.line(f"{marks[found.where]} {found.path}{reason}")
    return status


def _side(path: str) -> AbstractContextManager[PackTree | str]:
    """Open packs; a directory of anything else is compared itself."""
    from ffrfs.folder.tree import PackTree
    from ffrfs.packing.pack_kind import holds_packs

    if os.path.isdir(path) and not holds_packs(path):
        return nullcontext(path)
    return PackTree(path)
