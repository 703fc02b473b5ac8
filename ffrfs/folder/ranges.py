"""Ranges: the records of packs and files of records, cut into parts for other processes.

One process opens the files and cuts them; others get a RecordRange each, which is plain values
and small, and open that file themselves. No range crosses two files.

Not here: reading a range (range_reader.py), running the parts (ffrfs.ray, ffrfs.dask).
Concurrency: a RangeCutter and a RecordRange are immutable; any thread.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from ffrfs._native import Pack, Records, Source, TFRecords, crc32, header_checksum
from ffrfs.errors import FormatError, OptionError, UnverifiedHeaderWarning, warn
from ffrfs.folder.tree import PackTree, PathType, pack_files
from ffrfs.remote.paths import absolute, let_urls_in
from ffrfs.tfrecord.shards import is_tfrecord, shard_paths
from ffrfs.tfrecord.sidecar import keep_sidecars

# "ffrecord": a file without an index, so its records have numbers, no paths.
Kind: TypeAlias = Literal["pack", "ffrecord", "tfrecord"]

_NAMES = {"pack": "a pack", "ffrecord": "a plain FFRecord file", "tfrecord": "TFRecord"}

# A row weighs its bytes, and this for its path and its objects in memory.
ROW_SIZE = 64

# Files that are opened at a time: at URLs each takes several requests.
_OPEN_COUNT = 8


class RecordFile(NamedTuple):
    path: str  # absolute, or a URL
    kind: Kind
    first_number: int  # the number of its record 0 among the records of all files
    record_count: int  # without a pack's index
    byte_count: int  # of all its records, with the index
    row_size: int  # of all its records, without the index
    # True: each record is one row. False: several files of the pack share a record (--dedup).
    is_plain: bool
    # A digest of the header's tables, which changes with the bytes. TFRecord: of the sizes.
    identity: int
    mtime_ns: int = 0  # of TFRecord, whose bytes may change without their sizes


class RecordRange(NamedTuple):
    """Records `first` to `end`, without the latter, of one file."""

    file: RecordFile
    first: int
    end: int

    @property
    def row_count(self) -> int | None:
        """The number of its rows; None: only reading it shows that."""
        return self.end - self.first if self.file.is_plain else None

    @property
    def byte_count(self) -> int:
        """The approximate number of bytes of its records, as if all of the file were equal."""
        size, count = self.file.row_size, max(1, self.file.record_count)
        return size * self.end // count - size * self.first // count


class RangeCutter:
    """The files of `packs`, opened once, to be cut into ranges.

    `packs`: a pack, a set (a directory of packs), a file of FFRecord or TFRecord, a directory
    of those, or a list of either; each may be a URL. Packs must fit together, as for
    PackedFolder. Reads headers and indexes only; of TFRecord the frames, unless there is a
    sidecar.

    `kind`: of the files, for an empty file whose name does not tell (None: look at them).

    Raises FormatError, OSError for a bad file, a missing shard of a set, a path that two packs
    have, and for packs mixed with other files. Warns (UnverifiedHeaderWarning, PackWarning) of
    parts that are not verified or ignored.
    """

    def __init__(self, packs: PathType | Sequence[PathType], kind: Kind | None = None) -> None:
        names = [packs] if isinstance(packs, str | os.PathLike) else packs
        paths = [absolute(os.fspath(name)) for name in names]
        if not paths:
            raise ValueError("needs at least one pack")
        self.files: list[RecordFile] = []
        kind = kind or _kind_of(paths)
        self.kind: Kind = kind
        if kind == "tfrecord":
            self._add([file for path in paths for file in shard_paths(path)], True)
        elif kind == "ffrecord":
            self._add([file for path in paths for file in pack_files(path)], True)
        else:
            with PackTree(paths) as tree:
                volume = tree.volume
                # Without links, and with the root. A conflict would have been an error.
                is_plain = volume.file_count == volume.record_count - len(volume.paths)
                self._add(tree.to_open([*map(os.fsdecode, volume.paths)]), is_plain)

    def _add(self, paths: Sequence[str], is_plain: bool) -> None:
        number = 0
        with ThreadPoolExecutor(_OPEN_COUNT) as threads:
            looks = threads.map(functools.partial(_look_at, self.kind, is_plain), paths)
            for file, unverified in looks:
                if self.kind != "pack":  # for packs, opening the tree has warned already
                    for each in unverified:
                        warn(UnverifiedHeaderWarning.of(each), stacklevel=4)
                self.files.append(file._replace(first_number=number))
                number += file.record_count

    @property
    def weight(self) -> int:
        """The approximate number of bytes of all rows in memory."""
        return sum(map(_weight, self.files))

    def cut(self, count: int) -> list[RecordRange]:
        """Return about `count` ranges, in order: each record is in one.

        The ranges of a file have equal numbers of records. Each file with records has at least
        one range; if no file has records, there is a single empty range.
        """
        return cut_files(self.files, count) or [RecordRange(self.files[0], 0, 0)]

    def cut_by_size(self, size: int) -> list[RecordRange]:
        """Return ranges of at most about `size` bytes in memory; a larger record exceeds it."""
        if size < 1:
            raise ValueError(f"the size of a range is {size}, not positive")
        return self.cut(max(1, -(-self.weight // size)))


def cut_files(files: Sequence[RecordFile], count: int) -> list[RecordRange]:
    """Return about `count` ranges, at least one for each file that has records."""
    if count < 1:
        raise ValueError(f"the number of ranges is {count}, not positive")
    ranges = []
    for file, share in zip(files, _shares([_weight(file) for file in files], count), strict=True):
        records, parts = file.record_count, min(share, file.record_count)
        bounds = [records * part // parts for part in range(parts + 1)] if parts else []
        ranges += [RecordRange(file, first, end) for first, end in pairwise(bounds)]
    return ranges


def _weight(file: RecordFile) -> int:
    return file.row_size + ROW_SIZE * file.record_count


def _shares(weights: Sequence[int], count: int) -> list[int]:
    """Divide `count` among files by their weights: at least one for each positive weight."""
    total = max(1, sum(weights))
    exact = [count * weight / total for weight in weights]
    shares = [max(int(share), int(share > 0)) for share in exact]
    by_rest = sorted(range(len(exact)), key=lambda n: shares[n] - exact[n])
    for number in by_rest[: max(0, count - sum(shares))]:
        shares[number] += 1
    return shares


def check_on_error(on_error: object) -> None:
    """Raise OptionError unless it is "raise", "skip" or a function."""
    if on_error not in ("raise", "skip") and not callable(on_error):
        raise OptionError(f'on_error is "raise", "skip" or a function, not {on_error!r}')


def open_records(kind: Kind, path: str) -> Records | TFRecords:
    """Open a file of records without paths. Raises FormatError, OSError."""
    let_urls_in([path])
    if kind != "tfrecord":
        return Records([os.fsencode(path)])
    records = TFRecords([os.fsencode(path)])
    keep_sidecars(records, [path])  # for the next opening
    return records


def identity_of(path: str, records: Records | TFRecords | None = None) -> int:
    """Return the identity of a file, the same for its copies. `records`: the file, opened.

    A pack needs no `records`: its identity is the checksum of its header.
    """
    if not isinstance(records, TFRecords):
        begin = bytearray(4)
        Source(os.fsencode(path)).read_into(0, begin)
        if stored := header_checksum(bytes(begin)):
            return stored
    records = records or Records([os.fsencode(path)])  # an old writer's, without a checksum
    identity = crc32(records.offsets(0).tobytes())
    if isinstance(records, TFRecords):
        return identity
    return crc32(records.checksums(0).tobytes(), identity)


def _look_at(kind: Kind, is_plain: bool, path: str) -> tuple[RecordFile, list[str]]:
    """Return a file, as if it were the first, and its path if its header has no checksum."""
    with closing(open_records(kind, path)) as records:
        offsets = records.offsets(0)
        identity = identity_of(path, records)
        mtime_ns, unverified = 0, list[str]()
        if isinstance(records, TFRecords):
            [mtime_ns] = records.mtimes_ns
        else:
            unverified = [os.fsdecode(file) for file in records.unverified_paths]
    count = len(offsets) - 1 - (kind == "pack")
    begin = int(offsets[0])
    byte_count, row_size = int(offsets[-1]) - begin, int(offsets[count]) - begin
    sizes = count, byte_count, row_size
    return RecordFile(path, kind, 0, *sizes, is_plain, identity, mtime_ns), unverified


def _kind_of(paths: Sequence[str]) -> Kind:
    """Return the kind of all `paths`. Raises FormatError if they differ."""
    all_files = ((path, file) for path in paths for file in _files_to_tell(path))
    first: Kind | None = None
    for path, file in all_files:
        kind = "tfrecord" if file is None else _kind_of_file(file)
        if first not in (None, kind):
            raise FormatError.at(
                file or path, f"is {_NAMES[kind]}, {paths[0]} is {_NAMES[first]}: read them apart"
            )
        if kind == "pack":  # opening them as one tree checks that the others are packs, too
            return kind
        first = kind
    assert first is not None
    return first


def _kind_of_file(file: str) -> Kind:
    return "pack" if Pack(os.fsencode(file)).is_folder else "ffrecord"


def _files_to_tell(path: str) -> Sequence[str | None]:
    """Return the files of a path; None instead of a file means TFRecord."""
    return [None] if is_tfrecord(path) else pack_files(path)
