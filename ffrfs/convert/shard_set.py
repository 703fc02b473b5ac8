"""A directory of shards: the records of a data set in several files, in their order.

A local directory appears under its name with all shards in it, or not at all. Shards hold equal
numbers of records, or one more: record i of the first shard is record i of the data set, and
the shards in the order of their names are the data set. Not here: one shard (target.py).
Concurrency: one thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from ffrfs.convert.kind import Kind
from ffrfs.convert.output import Output
from ffrfs.convert.source import Record
from ffrfs.errors import PackError
from ffrfs.remote.url import is_url


def write_shards(
    output: Output,
    names: list[str],
    records: Iterator[Record],
    count: int,
    write: Callable[[str, Iterable[Record]], None],
) -> None:
    """Write `count` records into a new directory, a file for each of `names`.

    Raises PackError, writing nothing, if there are more files than records, or if the directory
    exists already.
    """
    path = output.path
    if count < len(names):
        raise PackError(
            f"{path}: {len(names):,} shards of {count:,} records would be empty files; "
            f"write fewer shards"
        )
    with output.shard_folder() as staging:
        for i, name in enumerate(names):
            shard_count = count * (i + 1) // len(names) - count * i // len(names)
            place = os.path.join(staging, name)
            write(place, islice(records, shard_count))
            output.written(place)
        next(records, None)  # raises if there are more


def shard_names(path: str, to: Kind, count: int, compression: str) -> list[str]:
    """Return the names of the shards of the directory `path`, as other programs expect them."""
    whole = path.rstrip("/") if is_url(path) else os.path.realpath(path)
    base = re.sub(r"(\.tfrecords?(\.gz)?|\.tar|\.parquet)?$", "", os.path.basename(whole))
    if to == "webdataset":
        return [f"{base}-{i:06}.tar" for i in range(count)]
    if to == "parquet":
        return [f"{base}-{i:05}-of-{count:05}.parquet" for i in range(count)]
    end = ".gz" if compression == "GZIP" else ""
    return [f"{base}.tfrecord-{i:05}-of-{count:05}{end}" for i in range(count)]
