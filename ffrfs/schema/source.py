"""The records of TFRecord files, in parts of UNIT_COUNT records that are summed up separately.

Files of all kinds are cut into the same units, whether one process reads them from front to
end, or several read parts of an uncompressed file. So the summary does not depend on the
number of processes.

Not here: distributing the parts (parallel.py). Concurrency: functions for one thread each.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple, TypeAlias

from ffrfs.errors import FormatError
from ffrfs.remote.stream import size_of
from ffrfs.schema.columns import ColumnParser
from ffrfs.schema.summary import DatasetSummary, Numbered
from ffrfs.tfrecord.info import compression_of
from ffrfs.tfrecord.iterator import OnError, RecordIterator, tf_record_iterator
from ffrfs.tfrecord.reader import TFRecordReader

UNIT_COUNT = 1 << 16
# Records and bytes that are parsed at once.
_BATCH_COUNT = 1 << 13
_BATCH_SIZE = 8 << 20

# Called with the numbers of records and bytes after each batch; its exception ends the reading.
Tick: TypeAlias = Callable[[int, int], object]


class Part(NamedTuple):
    """A part of a file: `length` records from record `first` on; None: all of them."""

    file: str
    first: int = 0
    length: int | None = None


def parts_of(file: str, is_divided: bool) -> list[Part]:
    """Return the units of a file; one part if it cannot be read from the middle."""
    if is_divided and _is_plain(file):
        with TFRecordReader(file) as reader:
            if reader.n > UNIT_COUNT:
                starts = range(0, reader.n, UNIT_COUNT)
                return [Part(file, at, min(UNIT_COUNT, reader.n - at)) for at in starts]
    return [Part(file)]


def summarize(part: Part, on_error: OnError, tick: Tick) -> DatasetSummary:
    """Read a part and sum it up. Raises errors of reading, and FormatError if it is no Example."""
    parser = ColumnParser()
    if part.length is not None:
        return _unit(parser, part, chain.from_iterable(_range(part)), on_error, tick)
    found = DatasetSummary()
    with tf_record_iterator(part.file, on_error=on_error) as opened:
        records = chain.from_iterable(_groups(opened))
        while True:
            summary = _unit(parser, part, islice(records, UNIT_COUNT), on_error, tick)
            if summary.record_count + summary.skipped_count == 0:
                break
            found.merge(summary, part.file)
    found.skipped_count += opened.skipped
    return found


def _unit(
    parser: ColumnParser, part: Part, records: Iterable[Numbered], on_error: OnError, tick: Tick
) -> DatasetSummary:
    found = DatasetSummary()
    for batch, size in _batches(records):
        found.add(parser, batch, part.file, skip=on_error == "skip")
        tick(len(batch), size)
    return found


def _batches(records: Iterable[Numbered]) -> Iterator[tuple[list[Numbered], int]]:
    """Yield lists of records, and their bytes; batches do not depend on the way of reading."""
    batch: list[Numbered] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record[1])
        if len(batch) == _BATCH_COUNT or size >= _BATCH_SIZE:
            yield batch, size
            batch, size = [], 0
    if batch:
        yield batch, size


def _groups(records: RecordIterator) -> Iterator[Iterable[Numbered]]:
    while True:
        try:
            batch = records.next_batch()
        except StopIteration:
            return
        yield enumerate(batch, records.first)


def _range(part: Part) -> Iterator[Iterable[Numbered]]:
    assert part.length is not None
    reader = _kept_reader(part.file)
    mean = size_of(part.file) // max(1, reader.n)
    step = max(1, min(_BATCH_COUNT, _BATCH_SIZE // max(1, mean)))
    end = part.first + part.length
    if end > reader.n:
        raise FormatError.at(part.file, "was replaced while it was read; read it again")
    for at in range(part.first, end, step):
        yield enumerate(reader.read(range(at, min(at + step, end))), at)


# Kept for a process of the pool: opening reads every frame, and parts of a file come in sequence.
_kept_reader = functools.lru_cache(maxsize=1)(TFRecordReader)


def _is_plain(path: str) -> bool:
    """Return whether it is a regular file without compression; False if it cannot be opened."""
    try:
        return not compression_of(path)
    except (FormatError, OSError):
        return False
