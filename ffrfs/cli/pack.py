"""`ffrfs pack`: a directory, an archive or packs into one file, or into a set of them."""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ffrfs.cli import output, planned_pack
from ffrfs.cli.cleaning_up import cleaning_up
from ffrfs.cli.number import size_bytes, whole_number
from ffrfs.cli.parser import UsageError

if TYPE_CHECKING:
    from ffrfs.packing.pack import PackSummary
    from ffrfs.packing.sources.options import PackOptions

HELP = "pack a directory, an archive or other packs into one file"
DESCRIPTION = "Pack all files of SRC into DST. DST appears when it is complete."
EPILOG = """\
SRC is a directory, or several in one directory, which keep their names in DST; a tar archive,
plain or compressed by gzip, bzip2, xz or Zstandard; a zip archive; or "-" for an archive on
standard input. No archive is unpacked to disk.

SRC is also a pack, or a pack set (a directory that holds packs of sets and nothing else), and
then there may be several: they are read as one tree, verified, and packed again, for example to
filter, to reorder or to merge them. Times, permissions, links and shared contents are kept.
Any other directory is data, also if there are packs in it.

PATTERN is a shell pattern (*, ?, [abc]). Without a slash it matches the name of a file or
directory, with a slash the path below SRC ("./train" and "/train" are the "train" of SRC itself).
An excluded directory is skipped with all that is in it; an included directory is packed whole. A
PATTERN of --include that matches nothing is an error.

--files-from packs only the paths that FILE names, relative to SRC, and in their order; a
directory means all that is below it, a path that is named twice counts once, and one that is not
in SRC is an error. --include and --exclude choose among them. An archive keeps its own order.

A file at DST, also a pack, is an error, unless --force is given. But DST may be an empty file, or
the same pack as SRC.

With --shards or --shard-size, DST is a new directory: a pack set. Each of its packs can be read
alone.

DST may be a URL (s3://BUCKET/NAME.ffr, gs://, az://). Each pack is made in a temporary directory,
uploaded, and removed there; at most two packs are there at a time. A pack appears in the bucket
when it is whole. --append also adds to a pack set in a bucket, for one process at a time.

Examples:
    ffrfs pack ~/imagenet imagenet.ffr
    ffrfs pack cats dogs pets.ffr
    ffrfs pack --shards 64 --exclude '*.tmp' ~/imagenet21k imagenet21k/
    ffrfs pack --shards 64 --executor ray ~/imagenet21k s3://bucket/in21k/
    ffrfs pack --dedup a.ffr b.ffr merged.ffr
    find . -name '*.jpg' | shuf | ffrfs pack --files-from - . ../shuffled.ffr
"""

COMMON = {
    *("--include", "--exclude", "--files-from", "--dedup", "--order"),
    *("--shards", "--shard-size", "--force", "--dry-run", "--executor"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources",
        metavar="SRC",
        nargs="*",
        help="a directory, or several in one; a tar or zip archive, - for standard input; or "
        "packs, any number",
    )
    parser.add_argument("target", metavar="DST.ffr", nargs="?", help="the pack to write")
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace the file DST.ffr (by default an error)",
    )
    add_packing_options(parser)
    planned_pack.add_plan_options(parser)


def add_packing_options(parser: argparse.ArgumentParser) -> None:
    """Add what `ffrfs cluster plan` takes, too."""
    _add_selection(parser)
    parser.add_argument("--jobs", metavar="N", type=whole_number(1), help="reading threads")
    parser.add_argument("--dedup", action="store_true", help="store files with equal contents once")
    parser.add_argument(
        "--order",
        metavar="path|size|FILE",
        help="order of files in the pack: by path (default), by size (smallest first), or as FILE "
        "lists their paths; archives keep their own order, and so do packs by default",
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
        "--shard-size",
        metavar="SIZE",
        type=size_bytes,
        help="write packs of at most SIZE, as in 10G",
    )
    parser.add_argument(
        "--append",
        action="store_true",
        help="add packs to the pack set DST: one, or as many as --shards or --shard-size ask for",
    )
    parser.add_argument(
        "--tmp-dir",
        metavar="DIR",
        help="if DST is a URL: make the packs in DIR (default: $TMPDIR, or /tmp)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be packed, and write nothing"
    )
    parser.add_argument(
        "--list",
        action="store_true",
        help="with --dry-run: print the paths of the files, in the order of the pack; those that "
        "share the contents of another come last",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")


def _add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the options that select files of SRC."""
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
        "--files-from",
        metavar="FILE",
        help="pack only the paths that FILE lists, one per line; - is standard input",
    )
    parser.add_argument(
        *("-0", "--null"),
        action="store_true",
        help="paths in FILE, and paths that --list prints, end with a zero byte",
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
        help="inside (the default): pack the targets of symbolic links; a link that leads out of "
        "SRC is an error; follow: pack the targets outside SRC, too (in an archive or a pack the "
        "same as inside); keep (the default for packs): pack the links; skip: leave them out",
    )
    parser.add_argument(
        "--on-conflict",
        choices=["error", "first", "last"],
        help="pack the first or the last pack's file if several packs contain its path; "
        "directories are merged (default: error)",
    )
    parser.add_argument(
        "--allow-missing",
        action="store_true",
        help="pack the other packs if some cannot be opened, or if shards of a pack set are "
        "missing",
    )


def run(args: argparse.Namespace) -> int:
    if args.sources:  # the parser puts DST there, too
        args.target = args.sources.pop()
    planned_pack.check_usage(args)
    _check_usage(args)
    folders = folders_beside_each_other(args)
    with cleaning_up():
        if planned_pack.is_planned(args):
            return planned_pack.run_of_pack(args, options_of(args, folders))
        return _pack(args, folders)


def _check_usage(args: argparse.Namespace) -> None:
    if not args.sources and not planned_pack.is_planned(args):
        missing = "DST.ffr" if args.target else "SRC, DST.ffr"
        raise UsageError(f"the following arguments are required: {missing}")
    check_lists(args)


def check_lists(args: argparse.Namespace) -> None:
    """Raise UsageError if the options about lists of paths do not fit together."""
    if args.list and not args.dry_run:
        raise UsageError("argument --list: needs --dry-run")
    if args.null and args.files_from is None and not args.list:
        raise UsageError("argument -0/--null: needs --files-from or --list")
    if args.files_from == "-" and "-" in args.sources:
        raise UsageError("argument --files-from: standard input is SRC already")


def folders_beside_each_other(args: argparse.Namespace) -> list[str] | None:
    """Turn several directories into SRC, the directory that they are in; return their names."""
    if len(args.sources) < 2 or not all(map(os.path.isdir, args.sources)):
        return None
    from ffrfs.packing.pack_kind import holds_packs

    if any(map(holds_packs, args.sources)):
        return None
    if args.files_from is not None:
        raise UsageError("argument --files-from: names files of one SRC, not of several")
    places = [os.path.split(os.path.abspath(source)) for source in args.sources]
    if len({above for above, _ in places}) > 1:
        raise UsageError("argument SRC: several directories must be in one and the same directory")
    args.sources = [places[0][0]]
    return [name for _, name in places]


def options_of(args: argparse.Namespace, folders: list[str] | None) -> PackOptions:
    from ffrfs.packing.sources.options import PackKeywords, PackOptions
    from ffrfs.packing.sources.path_list import PathList

    given = {name: getattr(args, name, None) for name in PackKeywords.__annotations__}
    # Options that were not given have the packer's defaults.
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if args.files_from is not None:
        options["files"] = PathList.read(args.files_from, null=args.null)
    elif folders:
        options["files"] = PathList(folders)
    if args.list:
        options["listing"] = functools.partial(_list, args)
    return PackOptions(**options)


def _pack(args: argparse.Namespace, folders: list[str] | None) -> int:
    from ffrfs.errors import OptionError
    from ffrfs.packing.pack import pack_any
    from ffrfs.packing.pack_kind import kind_of

    try:
        kind = kind_of(args.sources)
    except OptionError as error:
        raise UsageError(f"argument SRC: {error}") from None
    source = args.sources[0]
    for name in ("on-conflict", "allow-missing"):
        if getattr(args, name.replace("-", "_")) and kind != "packs":
            raise UsageError(f"argument --{name}: {source} is neither a pack nor a pack set")
    if args.order is not None and kind == "archive":
        raise UsageError(f"argument --order: {source} is an archive, and keeps its own order")
    shown = output.show_progress() and not args.quiet and not args.list
    summary = pack_any(kind, args.sources, args.target, options_of(args, folders), verbose=shown)
    if not args.quiet:
        for path in summary.skipped:
            output.error(f"{path}: skipped")
        if not args.list:
            fate = ", not written (dry run)" if args.dry_run else ""
            output.line(f"{args.target}: {_text(summary)}{fate}")
    return 0


def _list(args: argparse.Namespace, paths: Iterator[str]) -> None:
    end = b"\0" if args.null else b"\n"
    for path in paths:
        output.line(path, end)


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
