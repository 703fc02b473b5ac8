"""`ffrfs info`: a pack in numbers."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ffrfs.cli import output

if TYPE_CHECKING:
    from ffrfs.folder.info import PackInfo

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "info",
        help="show what a packed file holds, in numbers",
        description="Show what PACK holds, in numbers. Reads its header and index only.",
    )
    parser.add_argument("pack", metavar="PACK")
    parser.add_argument("--json", action="store_true", help="as a JSON object")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from ffrfs.folder.info import info

    found = info(args.pack)
    if args.json:
        output.json_object(_fields(args.pack, found))
    else:
        for title, value in _lines(args.pack, found).items():
            output.line(f"{title:<16} {value}")
    return 0


def _fields(pack: str, found: PackInfo) -> dict[str, object]:
    return {
        "file": pack,
        "kind": _kind(found),
        "records": found.record_count,
        "files": found.file_count,
        "folders": found.folder_count,
        "bytes": found.byte_count,
        "header_checksum": _header_checksum(found),
        "sizes": found.sizes._asdict() if found.sizes else None,
    }


def _lines(pack: str, found: PackInfo) -> dict[str, str]:
    lines = {
        "file": pack,
        "kind": _kind(found),
        "records": f"{found.record_count:,}",
        "files": f"{found.file_count:,}",
        "folders": f"{found.folder_count:,}",
        "bytes": f"{found.byte_count:,}",
        "header checksum": _header_checksum(found),
    }
    if found.sizes:
        least, median, most = found.sizes
        lines["file sizes"] = f"{least:,} to {most:,}, median {median:,}"
    return lines


def _kind(found: PackInfo) -> str:
    return "packed folder" if found.is_folder else "plain FFRecord"


def _header_checksum(found: PackInfo) -> str:
    return "good" if found.header_verified else "missing"
