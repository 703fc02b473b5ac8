"""`ffrfs warm`: bring a mount's files into the kernel's page cache."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ffrfs.cli import output

HELP = "bring the files of a mount into memory"
DESCRIPTION = """\
Bring all files of the mount at MOUNTPOINT, or those at and below each PATH, into the kernel's page
cache.
"""
EPILOG = """\
The command lists the files, then has the mount read and check them, front to back, and give them
to the kernel: after that, no read of them sends a request. It ends when this is done. At most half
of the available memory is filled (a quarter of a control group's limit, half of --max-memory);
the command says how many files it left out. Packs at URLs are brought into the cache on disk first.
In a mount of TFRecord files it counts records, and brings the first 64 features of each record, but
neither record.bin nor example.json.

Examples:
    ffrfs warm /mnt/imagenet
    ffrfs warm /mnt/imagenet val train/n01440764
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("mountpoint", metavar="MOUNTPOINT", help="a mount of ffrfs")
    parser.add_argument(
        "paths", metavar="PATH", nargs="*", default=[], help="a file or directory of the mount"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    warm(args.mountpoint, args.paths, is_shown=output.show_progress() and not args.quiet)
    return 0


def warm(mountpoint: str, paths: Sequence[str], *, is_shown: bool) -> None:
    """Warm the mount; print on stderr how many files were left out."""
    from ffrfs.folder.progress import ProgressBar
    from ffrfs.mount.client import warming

    with ProgressBar(mountpoint, is_shown) as progress:
        found = warming.warm(mountpoint, paths, progress)
    if found.left_out:
        output.error(
            f"{mountpoint}: {output.count(found.left_out, 'file')} of {found.files:,} "
            "(of TFRecord files: records) left out: "
            "memory has no room for more (see pushed_limit_bytes in `ffrfs stats --json`)"
        )
