"""Converts a directory of files by an executor, each file into one of its own.

    train/train.tfrecord-00007-of-00064  →  DST/train-00007-of-00064.ffr

Either directory may be one of a bucket. Files appear whole, and each has a row then; at the end the
rows become the manifest. So the same command goes on after whatever ended it: a file that has a
row, and is as the row says, is not made again.

Not here: converting a file (convert.py), where rows are (convert_rows.py).
Concurrency: one thread drives; tasks share nothing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import NamedTuple

from ffrfs.cluster.file_task import FileState, FileTask, run_files, sizes_of, state_of, states_of
from ffrfs.convert.column_reader import Float64
from ffrfs.convert.convert import ConvertSummary, convert
from ffrfs.convert.convert_rows import NAME_SIZE_MAX, ConvertRow, ConvertRows, line_of, put_row
from ffrfs.convert.kind import Kind, files_named, kind_of
from ffrfs.convert.source import OnError
from ffrfs.errors import FormatError, OptionError, PackError
from ffrfs.folder.progress import Progress
from ffrfs.folder.tree import pack_files
from ffrfs.remote.paths import absolute, is_folder
from ffrfs.remote.url import is_url, parse_url
from ffrfs.tfrecord.options import TFRecordOptions
from ffrfs.tfrecord.shards import shard_paths

_EXTENSIONS: dict[Kind, str] = {
    "tfrecord": ".tfrecord",
    "ffrecord": ".ffr",
    "pack": ".ffr",
    "jsonl": ".jsonl",
    "parquet": ".parquet",
    "webdataset": ".tar",
}
_OWN = re.compile(r"\.(tfrecords?(?:\.gz)?|ffr|parquet|tar|csv(?:\.gz)?|arrow|feather)(?=$|-)")


class ConvertOptions(NamedTuple):
    """The options of convert()."""

    to: Kind
    compression: str = ""
    level: int | None = None
    features: bool = False
    on_error: OnError = "raise"
    float64: Float64 = "cast"

    @property
    def written(self) -> TFRecordOptions:
        return TFRecordOptions(self.compression, compression_level=self.level)

    @property
    def text(self) -> str:
        """Return the options that decide the bytes of a file; `on_error` shows in `skipped`."""
        return json.dumps(self._replace(on_error="raise"))


@dataclass(frozen=True)
class ConvertTask(FileTask[ConvertRow]):
    """A file to convert. Raises the errors of convert()."""

    target: str
    options: ConvertOptions
    tmp_dir: str | None

    @property
    def name(self) -> str:
        return _name_of(self.target)

    def run(self) -> ConvertRow:
        # Taken before reading, so that a file whose source changes later is made again.
        source = _there(self.file)
        summary = convert(
            self.file,
            self.target,
            self.options.to,
            options=self.options.written,
            features=self.options.features,
            on_error=self.options.on_error,
            float64=self.options.float64,
            force=True,  # the file is from an earlier run, whose source has changed
            tmp_dir=self.tmp_dir,
        )
        target = _there(self.target)
        row = ConvertRow(
            source=_name_of(self.file),
            source_size=source.size,
            source_mtime_ns=source.mtime_ns,
            source_etag=source.etag,
            name=self.name,
            size=target.size,
            etag=target.etag,
            records=summary.record_count,
            skipped=summary.skipped_count,
            options=self.options.text,
        )
        put_row(self.target, row)
        return row


def convert_files(  # noqa: PLR0913 - as convert
    source: str,
    target: str,
    options: ConvertOptions,
    executor: Executor,
    progress: Progress | None = None,
    *,
    tmp_dir: str | None = None,
) -> ConvertSummary:
    """Convert each file of the directory `source` to one in the directory `target`.

    Both may be URLs; files for a bucket are made in `tmp_dir` of the worker ($TMPDIR, /tmp).
    `progress` counts files, and bytes of their sources. Raises PackError if the directory has
    other files, if two files would have one name, or one too long a name; what convert() raises;
    OSError.
    """
    tasks = _tasks(_files_of(source), target, options, tmp_dir)
    rows = ConvertRows(target)
    rows.begin(task.name for task in tasks)
    done = dict(_still_true(tasks, rows.found))
    size = sum(row.source_size for row in done.values())
    whole_size = sum(sizes_of(task.file for task in tasks)) if progress else 0

    def made(task: ConvertTask, row: ConvertRow) -> None:
        nonlocal size
        done[task.name] = row
        size += row.source_size
        if progress is not None:
            progress(len(done), len(tasks), size, max(size, whole_size))

    left = [task for task in tasks if task.name not in done]
    run_files(executor, left, made)
    ordered = [done[task.name] for task in tasks]
    rows.finish(_manifest(options, ordered))
    return ConvertSummary(sum(row.records for row in ordered), sum(row.skipped for row in ordered))


def _there(path: str) -> FileState:
    state = state_of(path)
    if state is None:
        raise PackError(f"{path}: vanished while it was converted")
    return state


def _files_of(source: str) -> list[str]:
    if not is_folder(source):
        if not is_url(source):
            os.stat(source)  # raises if it is missing
        raise PackError(
            f"{source}: is one file, which one process converts; leave out --executor"
            + (", or end a directory's URL in /" if is_url(source) else "")
        )
    kind = kind_of(source)
    if kind == "tfrecord":
        return shard_paths(source)
    if kind == "ffrecord":
        return pack_files(source)
    if kind in ("parquet", "webdataset"):
        return files_named(source, _EXTENSIONS[kind])
    raise FormatError.at(source, "is not a directory of files of records; leave out --executor")


def _tasks(
    files: Sequence[str], target: str, options: ConvertOptions, tmp_dir: str | None
) -> list[ConvertTask]:
    extension = _EXTENSIONS.get(options.to)
    if extension is None:
        raise OptionError(f"{target}: to={options.to!r} makes a directory; leave out --executor")
    if options.to == "tfrecord" and options.compression == "GZIP":
        extension += ".gz"
    made: dict[str, str] = {}
    tasks = []
    for file in map(absolute, files):
        name = _OWN.sub("", _name_of(file)) + extension
        if made.setdefault(name, file) != file:
            raise PackError(f"{file}: would become {name}, as {made[name]} does; rename one")
        if len(os.fsencode(name)) > NAME_SIZE_MAX:  # a bucket's file, too, is made in a directory
            raise PackError(
                f"{file}: would become {name}, whose name is over {NAME_SIZE_MAX} bytes; rename it"
            )
        place = f"{absolute(target).rstrip('/')}/{name}"
        tasks.append(ConvertTask(file, place, options, tmp_dir))
    return tasks


def _name_of(path: str) -> str:
    return os.path.basename(parse_url(path).key if is_url(path) else path)


def _still_true(
    tasks: Sequence[ConvertTask], found: dict[str, ConvertRow]
) -> Iterable[tuple[str, ConvertRow]]:
    """Yield the rows that still hold: same options, source unchanged, file as the row says."""
    known = [(task, found[task.name]) for task in tasks if task.name in found]
    sources = states_of(task.file for task, _ in known)
    targets = states_of(task.target for task, _ in known)
    for (task, row), source, target in zip(known, sources, targets, strict=True):
        is_same = row.source == _name_of(task.file) and row.source_state == source
        is_same = is_same and row.options == task.options.text
        is_same = is_same and (not row.skipped or task.options.on_error == "skip")
        if is_same and target is not None and (target.size, target.etag) == (row.size, row.etag):
            yield task.name, row


def _manifest(options: ConvertOptions, rows: Sequence[ConvertRow]) -> bytes:
    whole = {"format": "ffrfs-manifest", "version": 1, "to": options.to, "files": len(rows)}
    return "".join([json.dumps(whole) + "\n", *map(line_of, rows)]).encode()
