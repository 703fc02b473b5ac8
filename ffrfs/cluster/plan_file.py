"""The file of a plan: which files go into which shard, in which order.

It is a TFRecord file, so each of its records has checksums and can be read by itself:

    record 0        JSON: what is packed, where to, and how
    records 1 to B  blocks of the listing, in the order of the set (piece.py)
    record B + 1    JSON: totals, and where each shard begins

It is written in one pass over the listing, whatever its size: about 30 bytes of memory for a
block of 4,096 files. Only the blocks in which a shard begins are read again, to cut it.

Not here: where pieces come from (folder_plan.py), the tasks (planned_set.py).
Concurrency: one thread writes; a PlanFile may be read by any thread, one at a time.
"""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple, Self, TypeAlias

from ffrfs._native import TFRecords
from ffrfs.cluster.piece import BLOCK_COUNT, Piece, Pieces, decode, encode
from ffrfs.errors import ChecksumError, FormatError
from ffrfs.files.replacing import refuse_foreign
from ffrfs.files.staged_file import StagedFile
from ffrfs.tfrecord.framing import HEADER, is_header
from ffrfs.tfrecord.writer import TFRecordWriter

VERSION = 1
_BEGIN = b'{"version": '  # of the first record

# What a file takes in a pack besides its bytes and twice its name, and a pack besides its files:
# as in native/manifest/manifest_runs.cc, with a directory's part of each file.
_FILE_COST = 80
_PACK_COST = 16384
_CHUNK_SIZE = 1 << 20  # each of a larger file has a checksum of 4 bytes


class Place(NamedTuple):
    """A file of the plan, or its end: the block, and how many files are before it there."""

    block: int
    file: int


# Block, files before it there, files, bytes.
Cut: TypeAlias = tuple[int, int, int, int]


class ShardPart(NamedTuple):
    """What of the plan becomes one shard."""

    first: Place
    end: Place
    file_count: int
    byte_count: int


class _Totals:
    """Of each block of a plan."""

    def __init__(self) -> None:
        self.files = array("Q")
        self.costs = array("Q")
        self.sizes = array("Q")


class PlanWriter:
    """Writes the plan `path`, which appears at finish(), whole. `header`: of its first record.

    `mode`: its permissions (None: by the umask). Raises PackError if there is a file that is no
    plan, OSError.
    """

    def __init__(self, path: str, header: Mapping[str, object], *, mode: int | None = None) -> None:
        refuse_foreign(path, _is_plan, "a plan")
        self._file = StagedFile(path, mode=mode)
        self._records = TFRecordWriter(self._file.place)
        self._records.write(json.dumps({"version": VERSION, **header}))
        self._blocks = _Totals()
        self._digest = hashlib.sha256()
        self._begin_block()

    def add(self, piece: Piece) -> None:
        for part in _parts(piece):
            if (
                self._files + part.file_count > BLOCK_COUNT
                or self._links + len(part.links) > BLOCK_COUNT
                or len(self._lines) == BLOCK_COUNT
            ):
                self._end_block()
            line = part.line()
            self._lines.append(line)
            self._digest.update(line.encode(errors="surrogateescape"))
            self._files += part.file_count
            self._links += len(part.links)
            self._cost += sum(_costs_of(part))
            self._size += sum(part.sizes)

    def digest(self) -> str:
        """Of what was added so far: the same listing always has the same."""
        return self._digest.hexdigest()

    def finish(self, *, shards: int | None, shard_size: int | None, **more: object) -> None:
        """Cut the listing into shards, and give the file its name; `more`: of its last record."""
        self._end_block()
        self._records.flush()
        records = TFRecords([self._file.place.encode()], sidecar=False)
        cutter = _Cutter(records, self._blocks, self._file.path)
        cuts = cutter.of_size(shard_size) if shard_size else cutter.into(shards or 1)
        records.close()
        table = {
            "files": sum(self._blocks.files),
            "bytes": sum(self._blocks.sizes),
            "blocks": len(self._blocks.files),
            "shards": cuts,
            **more,
        }
        self._records.write(json.dumps(table, separators=(",", ":")))
        self._records.close()
        self._file.publish()

    def _begin_block(self) -> None:
        self._lines: list[str] = []
        self._files = self._links = self._cost = self._size = 0

    def _end_block(self) -> None:
        if self._lines:
            self._records.write(encode(self._lines))
            self._blocks.files.append(self._files)
            self._blocks.costs.append(self._cost)
            self._blocks.sizes.append(self._size)
        self._begin_block()

    def close(self) -> None:
        """Drop it, unless it is finished."""
        self._records.close()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_plan(begin: bytes) -> bool:
    return is_header(begin) and begin.startswith(_BEGIN, HEADER.size)


class PlanFile:
    """The plan at `path`. Raises FormatError, ChecksumError for one that is damaged, OSError."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._records = TFRecords([os.fsencode(path)], sidecar=False)
        except FormatError:
            raise _bad(path, "it is not a plan of ffrfs") from None
        self.header = self._json(0)
        if self.header.get("version") != VERSION:
            raise _bad(path, f"it is of version {self.header.get('version')!r}")
        table = self._json(self._records.count - 1)
        try:
            self.file_count, self.byte_count = int(table["files"]), int(table["bytes"])
            self.table = table
            self.skipped = [str(path) for path in table.get("skipped", ())]
            self.shards = list(self._parts(table["shards"], int(table["blocks"])))
        except (KeyError, TypeError, ValueError, OverflowError):
            raise _bad(path, "its table is damaged") from None

    def pieces(self, shard: int) -> Pieces:
        """What becomes shard `shard`."""
        part = self.shards[shard]
        count = part.end.block + (part.end.file > 0) - part.first.block
        numbers = range(part.first.block + 1, part.first.block + 1 + count)
        end = part.end.file if part.end.file > 0 else None
        return Pieces(tuple(self._records.read(numbers)), part.first.file, end, self.path)

    def _json(self, number: int) -> dict[str, Any]:
        try:
            value = json.loads(self._records.read([number])[0])
        except (ValueError, IndexError, RecursionError) as error:
            if isinstance(error, ChecksumError):
                raise
            raise _bad(self.path, "it is not a plan of ffrfs") from None
        if not isinstance(value, dict):
            raise _bad(self.path, "it is not a plan of ffrfs")
        return value

    def _parts(self, cuts: Sequence[Sequence[int]], block_count: int) -> Iterator[ShardPart]:
        if block_count != self._records.count - 2 or not cuts:
            raise ValueError("blocks are missing")
        begins = [Place(int(block), int(file)) for block, file, *_ in cuts]
        ends = [*begins[1:], Place(block_count, 0)]
        for begin, end, (_, _, files, size) in zip(begins, ends, cuts, strict=True):
            if not Place(0, 0) <= begin <= end <= (block_count, 0):
                raise ValueError("shards out of order")
            yield ShardPart(begin, end, int(files), int(size))

    def close(self) -> None:
        self._records.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Block(NamedTuple):
    """What is before each file of a block, within it; the last values: what is in it."""

    costs: list[int]
    sizes: list[int]


class _Sum(NamedTuple):
    """Of files from the first one on."""

    files: int
    cost: int
    size: int


_NOTHING = _Sum(0, 0, 0)


class _Cutter:
    """Cuts the blocks of a plan that is being written, whose `costs` and `sizes` are given."""

    def __init__(self, records: TFRecords, blocks: _Totals, path: str) -> None:
        self._records = records
        self._path = path
        self._files = list(accumulate(blocks.files, initial=0))
        self._costs = list(accumulate(blocks.costs, initial=0))
        self._sizes = list(accumulate(blocks.sizes, initial=0))
        self._loaded = -1
        self._block = _Block([], [])

    def into(self, count: int) -> list[Cut]:
        """At most so many shards of about equal size; none is empty if there are files."""
        files, total = self._files[-1], self._costs[-1]
        cuts: list[Cut] = []
        begin = _NOTHING
        for left in range(max(1, min(count, files)), 1, -1):
            # Each takes its part of what is left, and one file for each that follows is left.
            nearest = self._nearest(begin.cost + (total - begin.cost) // left)
            end = self._before(min(max(nearest, begin.files + 1), files - (left - 1)))
            cuts.append(self._cut(begin, end))
            begin = end
        return [*cuts, self._cut(begin, self._before(files))]

    def of_size(self, size_max: int) -> list[Cut]:
        """As few shards of at most `size_max` bytes as there may be; a larger file is alone."""
        cuts: list[Cut] = []
        begin = _NOTHING
        while begin.files < self._files[-1]:
            most = begin.cost + max(size_max - _PACK_COST, 0)
            end = self._before(max(self._last_within(most), begin.files + 1))
            cuts.append(self._cut(begin, end))
            begin = end
        return cuts or [self._cut(begin, begin)]

    def _cut(self, begin: _Sum, end: _Sum) -> Cut:
        return (*self._place(begin.files), end.files - begin.files, end.size - begin.size)

    def _place(self, file: int) -> Place:
        block = bisect_right(self._files, file) - 1
        # Blocks of nothing but links and empty directories go with what follows them.
        while block > 0 and self._files[block - 1] == file:
            block -= 1
        return Place(block, file - self._files[block])

    def _nearest(self, cost: int) -> int:
        """How many files are before the boundary that is nearest to `cost`."""
        below = self._last_within(cost)
        if below == self._files[-1]:
            return below
        before, after = self._before(below).cost, self._before(below + 1).cost
        return below if cost - before <= after - cost else below + 1

    def _last_within(self, cost: int) -> int:
        """How many files cost `cost` at most, together."""
        block = bisect_right(self._costs, cost) - 1
        if block == len(self._costs) - 1:
            return self._files[-1]
        within = bisect_right(self._load(block).costs, cost - self._costs[block]) - 1
        return self._files[block] + within

    def _before(self, file: int) -> _Sum:
        """What is before a file."""
        block = bisect_right(self._files, file) - 1
        number = file - self._files[block]
        cost, size = self._costs[block], self._sizes[block]
        if number:
            loaded = self._load(block)
            cost, size = cost + loaded.costs[number], size + loaded.sizes[number]
        return _Sum(file, cost, size)

    def _load(self, block: int) -> _Block:
        if block != self._loaded:
            pieces = decode(self._records.read([block + 1])[0], self._path)
            costs = (cost for piece in pieces for cost in _costs_of(piece))
            sizes = (size for piece in pieces for size in piece.sizes)
            self._block = _Block(
                list(accumulate(costs, initial=0)), list(accumulate(sizes, initial=0))
            )
            self._loaded = block
        return self._block


def _parts(piece: Piece) -> Iterator[Piece]:
    """Of as many files, and links, as go into a block."""
    while len(piece.links) > BLOCK_COUNT:
        yield replace(piece.chosen(()), links=piece.links[:BLOCK_COUNT])
        piece = replace(piece, links=piece.links[BLOCK_COUNT:])
    for first in range(0, max(piece.file_count, 1), BLOCK_COUNT):
        yield piece.part(first, first + BLOCK_COUNT)


def _costs_of(piece: Piece) -> list[int]:
    """Of each file; the first pays for the directory, those above it, and the links, too."""
    costs = [
        size + _FILE_COST + 2 * (_encoded_size(name) + 1) + 4 * (size // _CHUNK_SIZE)
        for size, name in zip(piece.sizes, piece.names, strict=True)
    ]
    if costs:
        costs[0] += _FILE_COST * len(piece.above) + 2 * _encoded_size(piece.folder)
        costs[0] += sum(_FILE_COST + 2 * len(name) + len(to) for name, to, _ in piece.links)
    return costs


def _encoded_size(name: str) -> int:
    return len(name) if name.isascii() else len(name.encode())


def _bad(path: str, reason: str) -> FormatError:
    return FormatError.at(path, f"bad plan: {reason}; make the plan again")
