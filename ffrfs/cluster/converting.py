"""Converts a directory of files by an executor, each file into one of its own.

    train/train.tfrecord-00007-of-00064  →  DST/train-00007-of-00064.ffr

Files appear whole in the new directory. What is done is in DST/.ffrfs-rows.jsonl, a line for each
file; at the end that becomes the manifest. So the same command goes on after whatever ended it:
what has a row, and is as the row says, is not made again.

Not here: converting a file (ffrfs/convert).
Concurrency: one thread drives; tasks share nothing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from ffrfs.cluster.file_task import Environment, Told, carried, run_all, with_warnings
from ffrfs.cluster.manifest import MANIFEST_NAME
from ffrfs.convert.convert import ConvertSummary, convert
from ffrfs.convert.kind import Kind, files_named, kind_of
from ffrfs.convert.source import OnError
from ffrfs.errors import FormatError, OptionError, PackError
from ffrfs.files.staged_file import sync_folder
from ffrfs.folder.tree import pack_files
from ffrfs.remote.url import is_url
from ffrfs.tfrecord.options import TFRecordOptions
from ffrfs.tfrecord.shards import shard_paths

ROWS_NAME = ".ffrfs-rows.jsonl"

_EXTENSIONS: dict[Kind, str] = {
    "tfrecord": ".tfrecord",
    "ffrecord": ".ffr",
    "pack": ".ffr",
    "jsonl": ".jsonl",
    "parquet": ".parquet",
    "webdataset": ".tar",
}
_OWN = re.compile(r"\.(tfrecords?(?:\.gz)?|ffr|parquet|tar)(?=$|-)")
_ROW_SIZE_MAX = 1 << 16


class ConvertOptions(NamedTuple):
    """As convert()."""

    to: Kind
    compression: str = ""
    level: int | None = None
    features: bool = False
    on_error: OnError = "raise"

    @property
    def written(self) -> TFRecordOptions:
        return TFRecordOptions(self.compression, compression_level=self.level)


@dataclass(frozen=True)
class ConvertTask:
    source: str
    target: str
    options: ConvertOptions
    environment: Environment


@dataclass(frozen=True)
class ConvertRow:
    """A file that was made, and of what."""

    source: str  # name
    source_size: int
    source_mtime_ns: int
    name: str
    size: int
    records: int
    skipped: int


def convert_files(
    source: str,
    target: str,
    options: ConvertOptions,
    executor: Executor,
    seen: Callable[[int, int], object] = lambda *_: None,
) -> ConvertSummary:
    """Convert each file of the directory `source` to one in the directory `target`.

    `seen(files, bytes)` is called with what was made so far. Raises PackError if the directory
    has other files, or if two files would have one name; what convert() raises; OSError.
    """
    if is_url(target) or is_url(source):
        raise OptionError(f"{target}: an executor converts local directories; leave it out")
    files = _files_of(source)
    tasks = _tasks(files, target, options)
    done = _rows_of(target)
    left = [task for task in tasks if not _is_done(task, done.get(os.path.basename(task.target)))]
    rows = {row.name: row for row in done.values()}
    _refuse_others(target, {os.path.basename(task.target) for task in tasks})
    os.makedirs(target, exist_ok=True)
    with open(os.path.join(target, ROWS_NAME), "a", encoding="utf-8") as log:
        size = sum(os.path.getsize(task.source) for task in tasks) - sum(
            os.path.getsize(task.source) for task in left
        )

        def made(task: ConvertTask, row: ConvertRow) -> None:
            nonlocal size
            rows[row.name] = row
            log.write(json.dumps(asdict(row)) + "\n")
            log.flush()
            size += row.source_size
            seen(len(rows), size)

        run_all(executor, run_convert, left, made)
    ordered = [rows[os.path.basename(task.target)] for task in tasks]
    _finish(target, options, ordered)
    return ConvertSummary(sum(row.records for row in ordered), sum(row.skipped for row in ordered))


def run_convert(task: ConvertTask) -> Told[ConvertRow]:
    """Raises what convert() raises."""
    os.environ.update(task.environment)
    return with_warnings(lambda: _convert(task))


def _convert(task: ConvertTask) -> ConvertRow:
    info = os.stat(task.source)
    summary = convert(
        task.source,
        task.target,
        task.options.to,
        options=task.options.written,
        features=task.options.features,
        on_error=task.options.on_error,
    )
    return ConvertRow(
        source=os.path.basename(task.source),
        source_size=info.st_size,
        source_mtime_ns=info.st_mtime_ns,
        name=os.path.basename(task.target),
        size=os.path.getsize(task.target),
        records=summary.record_count,
        skipped=summary.skipped_count,
    )


def _files_of(source: str) -> list[str]:
    if not os.path.isdir(source):
        os.stat(source)  # or it is not there
        raise PackError(f"{source}: is one file, which one process converts; leave out --executor")
    kind = kind_of(source)
    if kind == "tfrecord":
        return shard_paths(source)
    if kind == "ffrecord":
        return pack_files(source)
    if kind in ("parquet", "webdataset"):
        return files_named(source, _EXTENSIONS[kind])
    raise FormatError.at(source, "is not a directory of files of records; leave out --executor")


def _tasks(files: Sequence[str], target: str, options: ConvertOptions) -> list[ConvertTask]:
    extension = _EXTENSIONS.get(options.to)
    if extension is None:
        raise OptionError(f"{target}: to={options.to!r} makes a directory; leave out --executor")
    if options.to == "tfrecord" and options.compression == "GZIP":
        extension += ".gz"
    environment = carried()
    made: dict[str, str] = {}
    tasks = []
    for file in map(os.path.abspath, files):
        name = _OWN.sub("", os.path.basename(file)) + extension
        if made.setdefault(name, file) != file:
            raise PackError(f"{file}: would become {name}, as {made[name]} does; rename one")
        place = os.path.join(os.path.abspath(target), name)
        tasks.append(ConvertTask(file, place, options, environment))
    return tasks


def _rows_of(target: str) -> dict[str, ConvertRow]:
    """What was made before, by its name."""
    found: dict[str, ConvertRow] = {}
    try:
        with open(os.path.join(target, ROWS_NAME), encoding="utf-8", errors="replace") as log:
            while line := log.readline(_ROW_SIZE_MAX):
                row = _row(line)
                if row is not None:
                    found[row.name] = row
    except FileNotFoundError:
        pass
    return found


def _row(line: str) -> ConvertRow | None:
    """None: the line was cut off, or is not ours; the file is made again."""
    try:
        values: dict[str, Any] = json.loads(line)
        row = ConvertRow(**values)
    except (ValueError, TypeError, RecursionError):
        return None
    numbers = (row.source_size, row.source_mtime_ns, row.size, row.records, row.skipped)
    return row if isinstance(row.name, str) and all(type(n) is int for n in numbers) else None


def _is_done(task: ConvertTask, row: ConvertRow | None) -> bool:
    """Tell whether the file is there as its row says, and its source is as it was."""
    if row is None:
        return False
    try:
        size = os.path.getsize(task.target)
        info = os.stat(task.source)
    except FileNotFoundError:
        return False
    is_same = (info.st_size, info.st_mtime_ns) == (row.source_size, row.source_mtime_ns)
    return is_same and size == row.size and row.source == os.path.basename(task.source)


def _refuse_others(target: str, names: set[str]) -> None:
    if not os.path.isdir(target):
        return
    there = {name for name in os.listdir(target) if not name.startswith(".")}
    is_ours = os.path.lexists(os.path.join(target, ROWS_NAME))
    if there and (not is_ours or there - names):
        raise PackError(f"{target}: is not empty; write to another directory")


def _finish(target: str, options: ConvertOptions, rows: Sequence[ConvertRow]) -> None:
    """The rows become the manifest, the last of all files."""
    place = os.path.join(target, ROWS_NAME)
    with open(place, "w", encoding="utf-8") as file:
        whole = {"format": "ffrfs-manifest", "version": 1, "to": options.to, "files": len(rows)}
        for line in (whole, *map(asdict, rows)):
            file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.rename(place, os.path.join(target, MANIFEST_NAME))
    sync_folder(target)
