"""generate_statistics: the statistics of TFRecord files, in one pass, with bounded memory.

Not here: the parallel work (parallel.py), reading (source.py). Concurrency: one thread; with `jobs`
above 1, processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ffrfs.errors import FormatError
from ffrfs.schema.messages import PathType, Proto
from ffrfs.schema.parallel import summarize_files
from ffrfs.schema.statistics_message import DEFAULT_SIZES, Sizes, to_message
from ffrfs.tfrecord.iterator import OnError
from ffrfs.tfrecord.shards import shard_paths


class Generated(NamedTuple):
    """A DatasetFeatureStatisticsList, and the number of damaged records that were left out."""

    statistics: Proto
    skipped_count: int


def generate_statistics(  # noqa: PLR0913 - given by name
    sources: PathType | Sequence[PathType],
    *,
    jobs: int = 1,
    on_error: OnError = "raise",
    name: str = "",
    sizes: Sizes = DEFAULT_SIZES,
    progress: Callable[[int, int], object] | None = None,
) -> Generated:
    """Read TFRecord files of Examples or SequenceExamples, as one data set named `name`.

    `sources`: files of any compression, or directories of them, in their order. `jobs`:
    processes; the result does not depend on it. `on_error`: "skip" leaves out damaged records,
    and records that are no Examples. `progress` is called with the numbers of records and bytes
    that were read since the last call.

    Raises FormatError, TruncatedError or ChecksumError, naming file and record; FormatError
    if a feature has several kinds of values, or there are no records at all; ValueError for an
    empty list.
    """
    one = isinstance(sources, str | os.PathLike)
    listed: Sequence[PathType] = [sources] if one else sources  # type: ignore[list-item,assignment]
    files = [file for source in listed for file in shard_paths(source)]
    if not files:
        raise ValueError("there are no files to read: the list is empty")
    tick = progress or (lambda _records, _size: None)
    summary = summarize_files(files, jobs, on_error, tick)
    if summary.record_count == 0:
        raise FormatError.at(os.fspath(listed[0]), "no records, so there are no statistics")
    return Generated(to_message(summary, name, sizes), summary.skipped_count)
