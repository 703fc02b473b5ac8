"""`ffrfs info`: a pack, or several as one, in numbers.

Not here: TFRecord data sets (tfrecord_info.py).
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ffrfs.cli import output
from ffrfs.cli.number import whole_number
from ffrfs.cli.parser import UsageError
from ffrfs.errors import FormatError

if TYPE_CHECKING:
    from ffrfs.folder.info import PackInfo

HELP = "show numbers about packs"
DESCRIPTION = """\
Show how many files, records and bytes each PACK holds, and which index and checksums it has. The
command reads headers and indexes only, but compressed TFRecord files whole.
"""
EPILOG = """\
Examples:
    ffrfs info imagenet.ffr
    ffrfs info --json imagenet.ffr imagenet21k/
    ffrfs info --schema --limit 1000 train.tfrecord
"""

_MISSING_TOLD_MAX = 100  # numbers of shards in a line for people


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "packs",
        metavar="PACK",
        nargs="+",
        help="a pack, a TFRecord file, a directory of either, or a split of a TFDS directory "
        "(mnist/3.0.1/train)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print a JSON object; for several packs an array"
    )
    parser.add_argument(
        "--schema",
        action="store_true",
        help="read TFRecord files and show their features: for each its type, how many records "
        "have it, how many values it has, and their range (for bytes: of their sizes); beside "
        "them what the features.json of a TFDS directory declares",
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=whole_number(1),
        help="with --schema: read the first N records",
    )


def run(args: argparse.Namespace) -> int:
    if args.limit is not None and not args.schema:
        raise UsageError("--limit needs --schema")
    all_fields: list[dict[str, object]] = []
    for number, pack in enumerate(args.packs):
        if number > 0 and not args.json:
            output.line("")
        fields = _show(pack, args)
        all_fields += [fields] if fields is not None else []
    if args.json:
        output.json_objects(all_fields)
    return 0


def _show(pack: str, args: argparse.Namespace) -> dict[str, object] | None:
    """Print what `pack` holds, or return it for JSON."""
    from ffrfs.cli.tfrecord_info import show_schema, show_tfrecord
    from ffrfs.folder.info import pack_fields, pack_info
    from ffrfs.tfrecord.shards import is_tfrecord

    if is_tfrecord(pack):
        return show_schema(pack, args) if args.schema else show_tfrecord(pack, args)
    if args.schema:
        raise FormatError.at(pack, "not a TFRecord file, so its records have no schema")
    found = pack_info(pack)
    fields = pack_fields(pack, found)
    if args.json:
        return fields
    output.titled(_lines(fields, found))
    return None


def _lines(fields: dict[str, Any], found: PackInfo) -> dict[str, str]:
    lines = {
        "file": fields["file"],
        "kind": fields["kind"],
        "records": f"{found.record_count:,}",
        "files": f"{found.file_count:,}",
        "directories": f"{found.folder_count:,}",
        "bytes": f"{found.byte_count:,}",
        "stored bytes": _stored(found),
        "header checksum": fields["header_checksum"],
    }
    if found.sizes:
        least, median, most = found.sizes
        lines["file sizes"] = f"{least:,} to {most:,}, median {median:,}"
    if found.is_folder:
        lines["index"] = _index(found)
    if found.pack_count > 1 or found.shards:
        lines["shards"] = _shards(found)
    return lines


def _stored(found: PackInfo) -> str:
    saved = found.byte_count - found.stored_byte_count
    note = f"; equal files are stored once, which saves {output.size(saved)}" if saved else ""
    return f"{found.stored_byte_count:,}{note}"


def _index(found: PackInfo) -> str:
    """Return which mapped index serves; without one the pickle does."""
    if not found.indexes:
        return "none but the pickle (ffrfs index writes one)"
    if found.sidecar_count == 0:
        place = "in the pack" if found.pack_count == 1 else "in the packs"
    elif found.pack_count == 1:
        place = f"sidecar {found.indexes[0].file}"
    else:
        place = f"{found.sidecar_count:,} of them sidecars"
    text = f"{found.index_size:,} bytes, {place}"
    if found.file_count:
        text += f", {found.index_size / found.file_count:.1f} bytes a file with its name"
    lacking = found.pack_count - len(found.indexes)
    return f"{text}; {output.count(lacking, 'pack')} without" if lacking else text


def _shards(found: PackInfo) -> str:
    text = f"{found.pack_count:,}"
    if found.missing_shards:
        told = found.missing_shards[:_MISSING_TOLD_MAX]
        numbers = ", ".join(map(str, told))
        more = found.missing_shard_count - len(told)
        return f"{text}, incomplete: without {numbers}" + (f" and {more:,} more" if more else "")
    if len(found.shards) < found.pack_count:  # some packs belong to no set
        return text
    return f"{text}, complete"
