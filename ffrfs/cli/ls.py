"""`ffrfs ls`: what a pack holds."""

from __future__ import annotations

import argparse
import stat
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ffrfs.cli import opened_tree, output

if TYPE_CHECKING:
    from ffrfs.folder.tree import Entry, PackTree

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "ls",
        help="list a packed file",
        description="List a folder in PACK (by default all of it), or show one file. PACK may "
        "also be a folder of packs, which are one tree. A plain FFRecord file shows one file per "
        "record, a TFRecord file (or a folder of them) one folder per record.",
    )
    opened_tree.add_arguments(parser)
    parser.add_argument("path", metavar="PATH", nargs="?", default="")
    parser.add_argument(
        "-l", "--long", action="store_true", help="with mode, size, time, and where links lead"
    )
    parser.add_argument(
        "-R", "--recursive", action="store_true", help="with all that is in its folders"
    )
    parser.add_argument("--json", action="store_true", help="as a JSON array")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    bad: list[str] = []
    with opened_tree.open_tree(args) as tree:
        entries = _entries(tree, args.path, args.recursive, bad)
        if args.json:
            output.json_array(_fields(tree, entry) for entry in entries)
        else:
            for entry in entries:
                output.line(_long(tree, entry) if args.long else entry.path)
    for reason in bad:
        output.error(reason)
    return 1 if bad else 0


def _entries(tree: PackTree, path: str, recursive: bool, bad: list[str]) -> Iterator[Entry]:
    """`bad` takes what is wrong with folders that cannot be listed."""
    from ffrfs.folder.tree import Entry

    entry = Entry(path, tree.attributes(path))
    if entry.is_folder:
        return tree.entries(
            entry.attributes.ino, recursive, damaged=lambda error: bad.append(str(error))
        )
    return iter([entry])


def _long(tree: PackTree, entry: Entry) -> str:
    attributes = entry.attributes
    stored = _stored(tree, entry)
    bits = attributes.mode if stored is None else stat.S_IFMT(attributes.mode) | stored[0]
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(attributes.mtime_ns // 10**9))
    target = f" -> {tree.target(attributes.ino)}" if entry.is_link else ""
    return f"{stat.filemode(bits)} {attributes.size:>14,} {when} {entry.path}{target}"


def _stored(tree: PackTree, entry: Entry) -> tuple[int, int] | None:
    # What is inside a TFRecord file's record has none; to ask would be to read it again.
    return None if tree.volume.is_examples else tree.stored(entry.attributes.ino)


def _fields(tree: PackTree, entry: Entry) -> dict[str, object]:
    kind = "folder" if entry.is_folder else "link" if entry.is_link else "file"
    fields: dict[str, object] = {"path": entry.path, "type": kind}
    stored = _stored(tree, entry)
    if stored is not None:
        permissions, mtime_ns = stored
        fields |= {"mode": f"{permissions:04o}", "mtime_ns": mtime_ns}
    if entry.is_link:
        fields["target"] = tree.target(entry.attributes.ino)
    record = tree.volume.record(entry.attributes.ino)
    if record is not None:
        number, crc32 = record
        fields |= {"size": entry.attributes.size, "record": number}
        if crc32 is not None:  # the file is a whole record of an FFRecord file
            fields["crc32"] = f"{crc32:08x}"
    return fields
