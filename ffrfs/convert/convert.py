"""convert: converts a data set of one kind into another, without loss.

    TFRecord ──┬── TFRecord       shards joined, compression changed
               ├── FFRecord       record i is record i
               ├── pack           a file per record, or the tree that a mount shows
               ├── JSON lines     an Example per line
               ├── Parquet        an Example per row
               ├── WebDataset     an Example per sample
               └── directory      the tree that a mount shows
    FFRecord ──┬── the same, except the pack of that tree
    JSON lines ┤
    tables ────┤    Parquet, CSV, Arrow
    WebDataset ┤
    directory ─┘
    pack ────── the same except FFRecord and packs: an Example per file, or for WebDataset per
                files of one name; or its original records

TFRecord, Parquet and WebDataset are one file, or a directory of shards.

Not here: reading (source.py) and writing (target.py, shard_set.py, feature_folder.py), either of
JSON lines (json_lines.py), Parquet (parquet.py), WebDataset (webdataset.py) and a directory
(record_folder.py); outputs (output.py, bucket_output.py).
Concurrency: call it from any thread; the result appears whole or not at all.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import NamedTuple, get_args

from ffrfs.convert.column_reader import Float64
from ffrfs.convert.columns import survey
from ffrfs.convert.feature_folder import FeatureFolder
from ffrfs.convert.json_lines import JsonLinesSource, write_json_lines
from ffrfs.convert.kind import Kind, kind_of, kind_of_name
from ffrfs.convert.other_tables import ArrowSource, CsvSource
from ffrfs.convert.output import Output
from ffrfs.convert.pack_samples import PackSampleSource
from ffrfs.convert.parquet import ParquetSource, write_parquet
from ffrfs.convert.record_folder import RecordFolderSource, write_record_folder
from ffrfs.convert.shard_set import shard_names, write_shards
from ffrfs.convert.source import (
    FFRecordSource,
    OnError,
    PackedSource,
    RecordSource,
    TFRecordSource,
    exactly,
    naming_records,
)
from ffrfs.convert.table_source import import_pyarrow
from ffrfs.convert.target import write_ffrecord, write_folder, write_tfrecord
from ffrfs.convert.watch import Watch
from ffrfs.convert.webdataset import WebDatasetSource, write_webdataset
from ffrfs.errors import OptionError, PackError
from ffrfs.files.replacing import may_replace
from ffrfs.folder.progress import Progress
from ffrfs.remote.url import is_url, parse_url
from ffrfs.tfrecord.options import TFRecordOptions
from ffrfs.tfrecord.shards import is_tfrecord

# The kinds that may be a directory of shards.
SHARDED: tuple[Kind, ...] = ("tfrecord", "parquet", "webdataset")


class ConvertSummary(NamedTuple):
    record_count: int  # records written
    skipped_count: int  # damaged records left out
    empty_folder_count: int = 0  # empty directories of a pack that were left out


def convert(  # noqa: PLR0913 - two files, and options
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    to: Kind | None = None,
    *,
    options: TFRecordOptions | None = None,
    features: bool = False,
    records: bool = False,
    flat: bool = False,
    shards: int | None = None,
    float64: Float64 = "cast",
    on_error: OnError = "raise",
    force: bool = False,
    progress: Progress | None = None,
    tmp_dir: str | os.PathLike[str] | None = None,
) -> ConvertSummary:
    """Write the records of `source` to the file `target`, which is complete or not made.

    A file or object at `target` is replaced only with `force`.

    `source`: a TFRecord file of any compression, a plain FFRecord file, a directory of one of
    them, a pack, a file of JSON lines, a file of Parquet, CSV, Arrow or WebDataset (tar), or a
    directory of them, or a result of "folder". `to`: the kind of `target`, "tfrecord", "ffrecord",
    "pack", "jsonl", "parquet", "webdataset" or "folder" (a new directory with a directory per
    record, or for FFRecord a file); None: the kind that the name gives (.tfrecord, .tfrecord.gz,
    .jsonl, .parquet, .tar; .ffr is "ffrecord").

    `options`: for a TFRecord target; None: GZIP if its name ends with .gz, else no compression.
    `features`: for a TFRecord source, make a directory per record with a file per feature, and
    not a file per record; `to` is "pack" then. `records`: the pack is a result of such a
    conversion, and its records are converted. `flat`: write flat lines of JSON. `shards`: `target`
    becomes a new directory of so many files (train.tfrecord-00000-of-00010, train-000000.tar).
    `float64`: "cast" rounds doubles of tables to float32, with a PackWarning. `on_error`: "skip"
    leaves damaged records out. `progress`: called with records (with `features`: files) done,
    those in all, bytes done, bytes in all; 0 in all: unknown.

    `target` may be a URL (s3://, gs://, az://): each file is made in `tmp_dir` ($TMPDIR, /tmp),
    which needs room for two, then uploaded and removed. An object appears when it is whole;
    shards appear one after the other.

    Empty directories of a pack are left out and counted. Raises OptionError if `to` is missing or
    does not fit; PackError, writing nothing, if other contents would be lost; ChecksumError,
    FormatError (TruncatedError) for a source that is damaged; OSError.
    """
    source, target = os.fspath(source), os.fspath(target)
    _check_words(to, float64)
    kind = _target_kind(target, to, features, shards, flat=flat)
    _check_target(source, target)
    if kind == "folder":
        if records or on_error == "skip":
            raise OptionError(f"{target}: to='folder' takes all records as they are, or none")
        return ConvertSummary(write_record_folder(source, target, progress), 0)
    watch = Watch(progress, is_sent=is_url(target))
    with contextlib.ExitStack() as stack:
        is_set = shards is not None
        to_output = _output(target, watch, tmp_dir, is_set=is_set, force=force)
        output = stack.enter_context(to_output)
        if features:
            if not is_tfrecord(source):
                raise PackError(
                    f"{source}: is not a TFRecord file; only TFRecord files have features"
                )
            return _write_features(source, output, on_error, watch)
        if options is None:
            options = TFRecordOptions("GZIP" if target.endswith(".gz") else "")
        opened = stack.enter_context(_open_source(source, kind, records, on_error, float64))
        _write(opened, output, kind, options, watch, flat=flat, shards=shards)
        left_out = opened.empty_folder_count if isinstance(opened, PackedSource) else 0
        return ConvertSummary(watch.count, opened.skipped_count, left_out)


def _output(
    target: str, watch: Watch, tmp_dir: str | os.PathLike[str] | None, *, is_set: bool, force: bool
) -> AbstractContextManager[Output]:
    if not is_url(target):
        if not is_set:
            may_replace(target, force)
        return contextlib.nullcontext(Output(target, force=force))
    from ffrfs.convert.bucket_output import BucketOutput

    place = None if tmp_dir is None else os.fspath(tmp_dir)
    return BucketOutput(target, watch, is_set=is_set, force=force, tmp_dir=place)


def _target_kind(
    target: str, to: Kind | None, features: bool, shards: int | None, *, flat: bool
) -> Kind:
    kind = to or ("pack" if features else kind_of_name(target) or ("tfrecord" if shards else None))
    if kind in (None, "csv", "arrow"):
        raise OptionError(
            f"{target}: its name shows no format; use .tfrecord, .ffr, .jsonl, .parquet or "
            ".tar, or give to="
        )
    if features and kind != "pack":
        raise OptionError(f"{target}: features=True writes a pack, and does not go with to={to!r}")
    if flat and kind != "jsonl":
        raise OptionError(f"{target}: flat=True does not fit to={kind!r}")
    if shards is not None and (shards < 1 or kind not in SHARDED):
        raise OptionError(f"{target}: shards={shards} does not fit to={kind!r}")
    return kind


def _check_words(to: Kind | None, float64: Float64) -> None:
    for name, word, known in (("to", to, get_args(Kind)), ("float64", float64, get_args(Float64))):
        if word is not None and word not in known:
            raise OptionError(f"{name} must be one of {', '.join(known)}, not {word!r}")


def _check_target(source: str, target: str) -> None:
    """Raise PackError if the target is the source, or lies directly in the source's directory."""
    if is_url(source) and is_url(target):
        above, below = parse_url(source).shown, parse_url(target).shown
        if above.rstrip("/") == below.rstrip("/"):
            raise PackError(f"{target}: is the source; write to another file")
        if above.endswith("/") and below.rstrip("/").rpartition("/")[0] == above.rstrip("/"):
            raise _inside(source, target)
    if is_url(source) or is_url(target):
        return
    place = os.path.realpath(target)
    if os.path.isdir(source):
        if os.path.samefile(source, os.path.dirname(place) or "/"):
            raise _inside(source, target)
    elif os.path.exists(place) and os.path.samefile(source, place):
        raise PackError(f"{target}: is the source; write to another file")


def _inside(source: str, target: str) -> PackError:
    return PackError(
        f"{target}: would be inside {source}, and would be read as a part of it from then on; "
        "write it elsewhere"
    )


def _open_source(
    source: str, to: Kind, records: bool, on_error: OnError, float64: Float64
) -> RecordSource:
    found = kind_of(source)
    sources: dict[Kind, Callable[[], RecordSource]] = {
        "tfrecord": partial(TFRecordSource, source, on_error),
        "ffrecord": partial(FFRecordSource, source, on_error),
        "jsonl": partial(JsonLinesSource, source, on_error),
        "parquet": partial(ParquetSource, source, float64),
        "csv": partial(CsvSource, source, float64),
        "arrow": partial(ArrowSource, source, float64),
        "webdataset": partial(WebDatasetSource, source, on_error),
        "folder": partial(RecordFolderSource, source),
    }
    if records and found != "pack":
        raise PackError(f"{source}: is not a pack; convert its records without --records")
    if found in sources:
        return sources[found]()
    if to == "pack":
        raise PackError(f"{source}: is a pack already")
    if to == "ffrecord" and not records:
        raise PackError(
            f"{source}: is a pack, and a plain FFRecord file has no place for the paths "
            "of its files; convert it to TFRecord, or with --records"
        )
    if to == "webdataset" and not records:
        return PackSampleSource(source, on_error, as_examples=True)
    return PackedSource(source, on_error, as_examples=not records)


def _write(  # noqa: PLR0913 - source, target and options
    source: RecordSource,
    output: Output,
    to: Kind,
    options: TFRecordOptions,
    watch: Watch,
    *,
    flat: bool,
    shards: int | None,
) -> None:
    if to in {"ffrecord", "pack"}:
        count = source.count()
        records = watch.over(source.records(), count, source.size_bytes)
        records = exactly(records, count, source.path)
        write_all = write_ffrecord if to == "ffrecord" else write_folder
        write_all(output.place, records, count, force=output.force)
        output.written(output.place)
        output.finish()
        return
    with naming_records(source):
        write = partial(_shard_writer(source, to, options, flat), force=output.force)
        if shards is None:  # the number of records need not be known
            write(output.place, watch.over(source.records(), 0, source.size_bytes))
            output.written(output.place)
        else:
            count = source.count()
            records = watch.over(source.records(), count, source.size_bytes)
            records = exactly(records, count, source.path)
            names = shard_names(output.path, to, shards, options.compression_type or "")
            write_shards(output, names, records, count, write)
    output.finish()


def _shard_writer(
    source: RecordSource, to: Kind, options: TFRecordOptions, flat: bool
) -> Callable[..., None]:
    """Return a function that writes one file of a format that may have several."""
    if to == "tfrecord":
        return partial(write_tfrecord, options=options)
    if to == "jsonl":
        row = survey(source.path, source.records(), is_flat=True).row if flat else None
        return partial(write_json_lines, row=row)
    if to == "parquet":
        import_pyarrow()  # so that its absence is reported before all records are read
        return partial(write_parquet, columns=survey(source.path, source.records()))
    return partial(write_webdataset, numbers=itertools.count())


def _write_features(source: str, output: Output, on_error: OnError, watch: Watch) -> ConvertSummary:
    with contextlib.closing(FeatureFolder(source, on_error)) as folder:
        contents = watch.over(folder.contents(), folder.file_count, folder.size_bytes)
        folder.write(output.place, contents, force=output.force)
        output.written(output.place)
        output.finish()
        return ConvertSummary(folder.record_count, folder.skipped_count)
