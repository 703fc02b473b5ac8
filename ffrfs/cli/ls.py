"""`ffrfs ls`: list a pack."""

from __future__ import annotations

import argparse
import stat
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ffrfs.cli import opened_tree, output

if TYPE_CHECKING:
    from ffrfs.folder.tree import Entry, PackTree

HELP = "list the files of a pack"
DESCRIPTION = """\
List the directory or file PATH of PACK (default: the root). A plain FFRecord file is listed as one
file per record, TFRecord files as one directory per record.
"""
EPILOG = """\
Each line holds one name. On a terminal, unprintable characters are escaped (\\n, \\x1b, and
\\xff for a byte that is not UTF-8). In a file or a pipe, names are written byte for byte: a
name with a line break looks like two names there, and a message on standard error says so. -0
and --json separate names safely.

Examples:
    ffrfs ls imagenet.ffr
    ffrfs ls -lh imagenet.ffr 'train/*/1*.jpg'
    ffrfs ls -R0 imagenet.ffr | grep -z '\\.jpg$' > photos
"""

COMMON = {"--long", "--human-readable", "--recursive", "--json", "--null"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    opened_tree.add_arguments(parser)
    parser.add_argument(
        "path",
        metavar="PATH",
        nargs="?",
        default="",
        help="a directory or file in PACK, or a pattern ('train/*/1*.jpg', '**/*.csv')",
    )
    parser.add_argument(
        "-l",
        "--long",
        action="store_true",
        help="also show modes, sizes, times, and targets of links",
    )
    # A group, because the parser has -h for help already.
    parser.add_argument_group(conflict_handler="resolve").add_argument(
        *("-h", "--human-readable"),
        action=_HumanReadable,
        nargs=0,
        default=False,
        help="with -l: sizes as 1.2 GiB; alone: show this help message and exit",
    )
    parser.add_argument("-R", "--recursive", action="store_true", help="list subdirectories, too")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true", help="print a JSON array; -l adds nothing to it"
    )
    form.add_argument(
        *("-0", "--null"),
        action="store_true",
        help="end each name with a zero byte, for xargs -0, instead of a line break",
    )


class _HumanReadable(argparse.Action):
    """-h: as in `ls -lh`, or help, which it means for all other commands."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *_: object
    ) -> None:
        if not namespace.long:
            parser.print_help()
            parser.exit()
        namespace.human_readable = True


def run(args: argparse.Namespace) -> int:
    from ffrfs.folder.tree import Entry

    bad: list[str] = []
    with opened_tree.open_tree(args) as tree:
        paths = opened_tree.named_paths(tree, [args.path])
        tops = [Entry(path, tree.attributes(path)) for path in paths]
        entries = _entries(tree, tops, paths == [args.path], args.recursive, bad)
        if args.json:
            output.json_array(_fields(tree, entry) for entry in entries)
        else:
            _print(tree, entries, args)
    for reason in bad:
        output.error(reason)
    return 1 if bad else 0


def _print(tree: PackTree, entries: Iterator[Entry], args: argparse.Namespace) -> None:
    end = b"\0" if args.null else b"\n"
    broken_count = 0
    for entry in entries:
        text = _long(tree, entry, args.human_readable) if args.long else entry.path
        output.line(text, end)
        broken_count += "\n" in text
    if broken_count and not args.null and not output.is_escaped():
        names = output.count(broken_count, "name")
        output.error(f"{args.pack}: {names} with a line break; --null and --json tell them apart")


def _entries(
    tree: PackTree, tops: list[Entry], is_named: bool, recursive: bool, bad: list[str]
) -> Iterator[Entry]:
    """Yield the entries; append the errors of directories that cannot be listed to `bad`.

    `is_named`: the one entry of `tops` was named. If it is a directory, its content is shown in its
    place; a directory that a pattern matches is shown itself.
    """
    from ffrfs.folder.tree import Entry

    for top in tops:
        if not (is_named and top.is_folder):
            yield top
        if top.is_folder and (is_named or recursive):
            prefix = "" if is_named else f"{top.path}/"
            for entry in tree.entries(
                top.attributes.ino, recursive, damaged=lambda error: bad.append(str(error))
            ):
                yield Entry(prefix + entry.path, entry.attributes)


def _long(tree: PackTree, entry: Entry, human_readable: bool) -> str:
    attributes = entry.attributes
    stored = tree.stored(attributes.ino)
    bits = attributes.mode if stored is None else stat.S_IFMT(attributes.mode) | stored[0]
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(attributes.mtime_ns // 10**9))
    size = output.size(attributes.size) if human_readable else f"{attributes.size:,}"
    target = f" -> {tree.target(attributes.ino)}" if entry.is_link else ""
    return f"{stat.filemode(bits)} {size:>14} {when} {entry.path}{target}"


def _fields(tree: PackTree, entry: Entry) -> dict[str, object]:
    kind = "directory" if entry.is_folder else "link" if entry.is_link else "file"
    fields: dict[str, object] = {"path": entry.path, "type": kind}
    stored = tree.stored(entry.attributes.ino)
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
