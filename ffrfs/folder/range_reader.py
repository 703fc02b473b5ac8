"""read_range: yields the rows of one range of records, verified, in batches of bounded size.

It runs in the process that uses the rows, and opens the one file of the range.

Not here: cutting into ranges (ranges.py), tables and bags of rows (ffrfs.ray, ffrfs.dask).
Concurrency: no state; each call opens the file again, so any thread or process may call it.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from ffrfs.errors import FormatError, PackWarning, warn
from ffrfs.files.batches import in_batches
from ffrfs.folder.ranges import RecordRange, identity_of, open_records
from ffrfs.folder.read_each import Bad, read_each
from ffrfs.folder.tree import PackTree

if TYPE_CHECKING:
    from ffrfs._native import RecordBytes, Volume

# A function of the error and the row's name returns the contents in its place, or None.
OnError: TypeAlias = Literal["raise", "skip"] | Callable[[Exception, Any], bytes | None]

# A batch holds at most so many bytes, or one larger row.
BATCH_SIZE = 32 << 20
_BATCH_COUNT = 16384


class Batch(NamedTuple):
    """Rows, in the order of the records."""

    names: Sequence[str | int]  # paths in the pack, or numbers of records
    contents: Sequence[RecordBytes | bytes]
    records: Sequence[int]  # of each row, the number of its record in the file


class _Row(NamedTuple):
    record: int
    number: int  # the inode in a pack; in other files the record
    size: int


class _Source(NamedTuple):
    """An open file. A row has a number: an inode, or that of the record in its file."""

    rows: Iterable[_Row]  # in order
    read: Callable[[Sequence[int]], Sequence[RecordBytes | bytes]]
    name: Callable[[int], str] | Callable[[int], int]


def read_range(part: RecordRange, on_error: OnError = "raise") -> Iterator[Batch]:
    """Yield the rows of `part`, each once: the files of a pack, otherwise the records.

    Files that share a record come one after the other; links are no rows. The number of a
    record includes the records of the files before its own.

    Raises ChecksumError for damaged bytes, naming file, record and path; with
    `on_error="skip"` such a row is left out with a PackWarning; a function of the error and the
    row's name returns the bytes that take its place, or None to leave it out. Raises FormatError
    if the file has changed since it was cut, OSError if it cannot be read; a damaged index is an
    error too.
    """
    if part.first == part.end:
        return
    opened = _pack_source if part.file.kind == "pack" else _record_source
    with opened(part) as source:
        for rows in in_batches(source.rows, attrgetter("size"), BATCH_SIZE, _BATCH_COUNT):
            yield _read(source, rows, on_error)


@contextlib.contextmanager
def _pack_source(part: RecordRange) -> Iterator[_Source]:
    with PackTree(part.file.path) as tree:
        volume = tree.volume
        _check_same(part, volume.record_count - 1, volume.byte_count, identity_of(part.file.path))
        inos = _inos(volume, part) if part.file.is_plain else _shared_inos(volume, part)
        rows = (_Row(record, ino, _size(volume, ino)) for record, ino in inos)
        yield _Source(rows, tree.read_files, tree.path)


@contextlib.contextmanager
def _record_source(part: RecordRange) -> Iterator[_Source]:
    with contextlib.closing(open_records(part.file.kind, part.file.path)) as records:
        offsets = records.offsets(0)
        identity = identity_of(part.file.path, records)
        _check_same(part, records.count, int(offsets[-1] - offsets[0]), identity)
        sizes = (offsets[part.first + 1 : part.end + 1] - offsets[part.first : part.end]).tolist()
        first_number = part.file.first_number
        yield _Source(
            map(_Row, range(part.first, part.end), range(part.first, part.end), sizes),
            records.read,
            lambda record: first_number + record,
        )


def _check_same(part: RecordRange, record_count: int, byte_count: int, identity: int) -> None:
    file = part.file
    if (record_count, byte_count, identity) != (file.record_count, file.byte_count, file.identity):
        raise FormatError.at(file.path, "is another file than the one that was cut into ranges")


def _inos(volume: Volume, part: RecordRange) -> Iterator[tuple[int, int]]:
    """Yield each record of the range, with the inode of its file."""
    for record in range(part.first, part.end):
        ino = volume.file_of(record)
        if ino == 0:  # so two files share another record, or there would be fewer files
            raise FormatError.at(
                part.file.path,
                f"record {record} is no file's, and two files share one: not read in ranges",
                record,
            )
        yield record, ino


def _shared_inos(volume: Volume, part: RecordRange) -> list[tuple[int, int]]:
    """Do as _inos() does, by a look at all inodes: a record knows only one of its files."""
    found = []
    for ino in itertools.count(1):
        record = volume.record(ino)
        if record is not None:
            if part.first <= record[0] < part.end:
                found.append((record[0], ino))
        elif volume.attributes(ino) is None:
            break
    return sorted(found)


def _size(volume: Volume, ino: int) -> int:
    attributes = volume.attributes(ino)
    assert attributes is not None
    return attributes.size


def _read(source: _Source, rows: Sequence[_Row], on_error: OnError) -> Batch:
    numbers = [row.number for row in rows]
    found = source.read(numbers) if on_error == "raise" else read_each(numbers, source.read)
    names = [source.name(row.number) for row in rows]
    settled = [
        (name, data, row.record)
        for name, one, row in zip(names, found, rows, strict=True)
        if (data := _settled(one, name, on_error)) is not None
    ]
    return Batch(*map(list, zip(*settled, strict=True))) if settled else Batch([], [], [])


def _settled(found: Any, name: str | int, on_error: OnError) -> Any:  # noqa: ANN401 - bytes
    """Return the contents, or what takes their place; None: the row is left out."""
    if not isinstance(found, Bad):
        return found
    if not callable(on_error):
        warn(PackWarning(f"{found.error}; left out"), stacklevel=2)
        return None
    data = on_error(found.error, name)
    if data is not None and not isinstance(data, bytes):
        raise TypeError(f"on_error returns bytes or None, not {type(data).__name__}, for {name}")
    return data
