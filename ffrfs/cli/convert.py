"""`ffrfs convert`: between TFRecord, FFRecord, packs and formats for Examples."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ffrfs.cli import output
from ffrfs.cli.cleaning_up import cleaning_up
from ffrfs.cli.executor_option import add_executor_option, listing_failures
from ffrfs.cli.number import whole_number
from ffrfs.cli.parser import UsageError
from ffrfs.errors import MissingPackageError

if TYPE_CHECKING:
    from ffrfs.convert.convert import ConvertSummary
    from ffrfs.convert.kind import Kind
    from ffrfs.folder.progress import ProgressBar

HELP = "convert between TFRecord, FFRecord, packs, JSON lines, Parquet and WebDataset"
DESCRIPTION = "Convert SRC to the file DST. DST appears when it is complete."
EPILOG = """\
The name and the first bytes of SRC show its format: a TFRecord file of any compression, a plain
FFRecord file, a directory of such files (read as one, in the order of their names), a pack, a
file of JSON lines (.jsonl), Parquet (a .parquet file, or a directory of them), WebDataset (a .tar
file, or a directory of them), CSV with a header or Arrow (.csv, .csv.gz, .arrow, .feather; also
directories of them), or a directory that --to folder made.

The name of DST, or --to, sets the format of DST:
  .tfrecord, .tfrecords  TFRecord; compressed if .gz follows
  --to ffrecord          a plain FFRecord file, record i for record i; so does
                         .ffr alone, with a warning, until a later version
                         refuses it
  .jsonl                 a line of JSON per Example; bytes are base64. With --flat
                         as {"text": "a dog", "label": 3}, which is read, too
  .parquet               Parquet: a row per Example, a column per feature
                         (needs the package pyarrow)
  .tar                   WebDataset: a sample per Example; samples of a .tar
                         keep keys and extensions
  --to pack              a pack with one file per record, named by its number
  --to folder            a directory per record, with a file per feature, as a
                         mount of SRC shows it; back, record.bin counts
  --features             a pack with the tree that a mount of SRC shows

Each file of a pack becomes an Example with the features "path" and "data" (one bytes value
each); for WebDataset, the files cat/1.jpg and cat/1.json become a sample. With --records, a pack
made with --to pack or --features becomes its records again: the files with numbers for names, or
the record.bin of each directory.

With --shards, DST becomes a new directory of TFRecord files (DST.tfrecord-00000-of-00010), with
--to parquet of Parquet files (DST-00000-of-00010.parquet), or with --to webdataset of tar files
(DST-000000.tar), with equal numbers of records. Exactly N files are written. For a local directory
a warning says so if they are below 100 MB each, because many small files are read slowly.

DST may be a URL (s3://BUCKET/NAME.tfrecord, gs://, az://). Each file is made in a temporary
directory, uploaded, and removed there; at most two shards are there at a time. A file appears in
the bucket when it is whole.

A file at DST is an error, unless --force is given. If the target format would lose data, that is
an error, too; but empty directories of a pack are left out and counted. A damaged record ends the
conversion.

Examples:
    ffrfs convert train.tfrecord.gz train.tfrecord
    ffrfs convert train.ffr train.tfrecord.gz
    ffrfs convert --to pack train.tfrecord numbered.ffr
    ffrfs convert --features train.tfrecord features.ffr
    ffrfs convert train.tfrecord train.parquet
    ffrfs convert --shards 64 train.tfrecord s3://bucket/train/
"""

COMMON = {
    *("--to", "--shards", "--compression", "--features", "--records", "--on-error"),
    *("--force", "--executor", "--quiet"),
}
_SHARDS_MAX = 99_999  # the names of shards have five digits
# The least size of a shard that TensorFlow's guide to TFRecord advises.
_SHARD_SIZE_MIN = 100_000_000

_TABLES = (".parquet", ".csv", ".csv.gz", ".arrow", ".feather")
_COMPRESSIONS = {"none": "", "gzip": "GZIP", "zlib": "ZLIB"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="SRC", help="the file to convert, or a directory of such files"
    )
    parser.add_argument("target", metavar="DST", help="the file to write")
    parser.add_argument(
        "--to",
        metavar="FORMAT",
        choices=("tfrecord", "ffrecord", "pack", "jsonl", "parquet", "webdataset", "folder"),
        help="the format of DST; tfrecord, ffrecord, pack, jsonl, parquet, webdataset or folder",
    )
    parser.add_argument(
        "--shards",
        metavar="N",
        type=whole_number(1, _SHARDS_MAX),
        help="write N TFRecord, Parquet or tar files into the new directory DST",
    )
    parser.add_argument(
        "--compression",
        choices=_COMPRESSIONS,
        help="compression of a TFRecord file (default: gzip if its name ends with .gz, else none)",
    )
    parser.add_argument(
        "--level", metavar="N", type=int, choices=range(10), help="compression level, 0 to 9"
    )
    parser.add_argument(
        "--features",
        action="store_true",
        help="write a directory per record, and a file per feature",
    )
    parser.add_argument(
        "--records", action="store_true", help="write the records that the pack SRC was made of"
    )
    parser.add_argument(
        "--flat", action="store_true", help="write JSON lines with a value or list for each feature"
    )
    parser.add_argument(
        "--float64",
        choices=("cast", "refuse"),
        default="cast",
        help="double columns of Parquet, CSV and Arrow: cast rounds them to float32, and says so; "
        "refuse makes them an error (default: %(default)s)",
    )
    parser.add_argument(
        "--on-error",
        choices=("raise", "skip"),
        default="raise",
        help="how to treat a damaged record: raise ends the conversion, skip leaves the record "
        "out and counts it (default: %(default)s)",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace the file DST (by default an error)"
    )
    parser.add_argument(
        "--tmp-dir",
        metavar="DIR",
        help="if DST is a URL: make the files in DIR (default: $TMPDIR, or /tmp)",
    )
    add_executor_option(parser, "convert each file of the directory SRC to one in DST")
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")


def run(args: argparse.Namespace) -> int:
    summary = _convert(args) if args.executor is None else _convert_by(args)
    if summary.skipped_count:
        skipped = output.count(summary.skipped_count, "damaged record")
        output.error(f"{args.source}: left out {skipped}")
    if not args.quiet:
        from ffrfs.remote.url import is_url

        if args.to is None and not args.features and args.target.endswith(".ffr"):
            output.error(
                f"{args.target}: became a plain FFRecord file, as by --to ffrecord; --to pack "
                "makes a pack; a later version needs one of them for .ffr"
            )

        if args.shards and not is_url(args.target):
            _advise_size(args.target, args.shards)
        empty = summary.empty_folder_count
        folders = output.count(empty, "empty directory", "empty directories")
        left_out = f", {folders} left out" if empty else ""
        records = output.count(summary.record_count, "record")
        output.line(f"{args.target}: {records}{left_out}")
    return 0


def _convert(args: argparse.Namespace) -> ConvertSummary:
    try:
        from ffrfs.convert.convert import convert
    except MissingPackageError:  # lacks what all Examples need; tables need one package more
        if args.to == "parquet" or args.target.endswith(_TABLES) or args.source.endswith(_TABLES):
            need = "tables need the packages pyarrow and protobuf"
            raise MissingPackageError.of(need, "parquet") from None
        raise
    from ffrfs.tfrecord.options import TFRecordOptions

    to = _target_kind(args)
    options = TFRecordOptions(_compression(args, to), compression_level=args.level)
    unit = "files" if args.features or to == "folder" else "records"
    with _ending(args, unit) as bar:
        return convert(
            args.source,
            args.target,
            to,
            options=options,
            features=args.features,
            records=args.records,
            flat=args.flat,
            float64=args.float64,
            shards=args.shards,
            on_error=args.on_error,
            force=args.force,
            progress=bar.progress,
            tmp_dir=args.tmp_dir,
        )


def _convert_by(args: argparse.Namespace) -> ConvertSummary:
    from ffrfs.cluster.executors import open_executor
    from ffrfs.convert.convert_files import ConvertOptions, convert_files

    if args.shards or args.records or args.force or args.flat:
        raise UsageError(
            "--executor: a file is made of each; leave out --shards, --records, --force and --flat"
        )
    if args.to is None and not args.features:
        raise UsageError("--executor: needs --to")
    to: Kind = args.to or "pack"
    options = ConvertOptions(
        to, _compression(args, to), args.level, args.features, args.on_error, args.float64
    )
    with (
        _ending(args, "files") as bar,
        open_executor(args.executor) as executor,
        listing_failures(),
    ):
        return convert_files(
            args.source, args.target, options, executor, bar.progress, tmp_dir=args.tmp_dir
        )


@contextlib.contextmanager
def _ending(args: argparse.Namespace, unit: str) -> Iterator[ProgressBar]:
    """Yield the progress bar; clean up if files on their way to a bucket may be left behind."""
    from ffrfs.remote.url import is_url

    with (
        cleaning_up() if is_url(args.target) else contextlib.nullcontext(),
        output.progress_bar(args.target, unit, quiet=args.quiet) as bar,
    ):
        yield bar


def _advise_size(target: str, shards: int) -> None:
    size = sum(os.path.getsize(entry) for entry in os.scandir(target))
    if shards > 1 and size < shards * _SHARD_SIZE_MIN:
        advised = max(1, size // _SHARD_SIZE_MIN)
        output.error(
            f"{target}: the shards have {output.size(size / shards)} on average, and files below "
            f"100 MB are read slowly; consider --shards {advised}"
        )


def _target_kind(args: argparse.Namespace) -> Kind:
    """Return the kind of DST; end with status 2 if the arguments do not fit together."""
    from ffrfs.convert.kind import kind_of_name

    named = kind_of_name(args.target)
    implied: Kind | None = "pack" if args.features else named
    if implied is None and args.shards:
        implied = "tfrecord"
    to: Kind | None = args.to or implied
    if to is None:
        raise UsageError(
            f"cannot tell the format of {args.target} from its name; use .tfrecord, .jsonl, "
            ".parquet or .tar, or give --to"
        )
    # The name of an .ffr file does not say whether it becomes a pack.
    if named is not None and to != named and {to, named} != {"ffrecord", "pack"}:
        raise UsageError(f"--to {to}: {args.target} has the extension of another format")
    if args.features and to != "pack":
        raise UsageError(f"--features: writes a pack, and does not go with --to {to}")
    if args.flat and to != "jsonl":
        raise UsageError(f"--flat: is for JSON lines, and does not go with --to {to}")
    if args.shards and to not in ("tfrecord", "parquet", "webdataset"):
        raise UsageError(
            f"--shards: writes TFRecord, Parquet or tar files, and does not go with --to {to}"
        )
    if to == "folder" and (args.records or args.on_error == "skip"):
        raise UsageError("--to folder: does not go with --records or --on-error skip; see extract")
    if args.features and args.records:
        raise UsageError("--features and --records: use one of them")
    return to


def _compression(args: argparse.Namespace, to: Kind) -> str:
    if to != "tfrecord" and (args.compression or args.level is not None):
        raise UsageError(f"--compression and --level are for TFRecord files, not for --to {to}")
    name = args.compression or ("gzip" if args.target.endswith(".gz") else "none")
    if name == "none" and args.level is not None:
        raise UsageError("--level needs a compression; add --compression gzip or zlib")
    return _COMPRESSIONS[name]
