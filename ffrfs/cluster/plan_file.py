"""The file of a plan: which files go into which shard, in which order.

It is a TFRecord file, so each of its records has checksums and can be read by itself:

    record 0        JSON: sources, target and options
    records 1 to B  blocks of the listing, in the order of the set (piece.py)
    record B + 1    JSON: totals, and the beginning of each shard

It is written in one pass over the listing, whatever its size: about 30 bytes of memory for a
block of 4,096 files. Only the blocks in which a shard begins are read again, to cut it.

Not here: listing (folder_plan.py), the tasks (planned_set.py).
Concurrency: one thread writes; a PlanFile may be read by any thread, one at a time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from ffrfs._native import TFRecords, file_cost, folder_cost, link_cost
from ffrfs.cluster.piece import BLOCK_COUNT, Piece, Pieces, bad_plan, decode, encode, link_bytes
from ffrfs.errors import ChecksumError, FormatError, PackError, naming
from ffrfs.files.closing import Closing
from ffrfs.files.replacing import refuse_foreign
from ffrfs.files.staged_file import StagedFile
from ffrfs.packing.cuts import ListingDigest, cut
from ffrfs.packing.sources.options import PackOptions
from ffrfs.tfrecord.framing import HEADER, is_header
from ffrfs.tfrecord.writer import TFRecordWriter

VERSION = 1
_BEGIN = b'{"version": '  # the beginning of the first record


# file_cost() is so simple for most files; a call of the core for each would take longer.
_ENTRY = file_cost(0, "")
_BYTE = file_cost(0, "x") - _ENTRY  # a byte of the name
_SMALL = 1 << 20

_BLOCKS_KEPT = 2  # in which a shard begins


class Place(NamedTuple):
    """A file of the plan, or its end: its block, and the number of files before it there."""

    block: int
    file: int


# Its block, and the numbers of files there before it, of all files and of bytes before it.
Cut: TypeAlias = tuple[int, int, int, int]


class ShardPart(NamedTuple):
    """The part of the plan that becomes one shard."""

    first: Place
    end: Place
    file_count: int
    byte_count: int


class _Costs:
    """The costs of the files of pieces in a pack, as EntryList.costs() gives them for a list."""

    def __init__(self, begin: tuple[str | None, str | None, int] = (None, None, 0)) -> None:
        # The directories of the last file, and of the last link or empty directory; and the cost
        # of links and empty directories that the next file pays.
        self.folder, self.rest_folder, self.pending = begin

    @property
    def state(self) -> tuple[str | None, str | None, int]:
        return self.folder, self.rest_folder, self.pending

    def of(self, piece: Piece) -> list[int]:
        """Return the costs of files; those that share the record of another have none."""
        if piece.links or not piece.names:
            if piece.folder != self.rest_folder:
                self.pending += _folder_cost(piece)
            self.rest_folder = piece.folder
            for name, target, _ in piece.links:
                self.pending += link_cost(len(name.encode()), len(link_bytes(target)))
        if not piece.record_count:
            return []
        costs = [
            size + _ENTRY + _BYTE * len(name)
            if size <= _SMALL and name.isascii()
            else file_cost(size, name)
            for size, name in zip(piece.sizes, piece.names, strict=True)
        ]
        if piece.folder != self.folder:
            costs[0] += _folder_cost(piece)
        costs[0] += self.pending
        self.folder, self.pending = piece.folder, 0
        return costs


def _folder_cost(piece: Piece) -> int:
    return folder_cost(len(piece.above) - 1, len(piece.folder.encode()))


class _Blocks:
    """The blocks of a plan that is being written. A cuts.Blocks."""

    def __init__(self) -> None:
        # By block.
        self.files = array("Q")
        self.counts = array("Q")
        self.costs = array("Q")
        self.sizes = array("Q")
        self._begins = [_Costs().state]
        self._last = 0  # the last block with records
        self._rest_cost = 0  # the cost of entries behind the last record, which pays for them
        self._before: list[list[int]] = []  # by block: files, bytes and records before it
        self._records: TFRecords | None = None
        self._path = ""
        self._pieces = lru_cache(_BLOCKS_KEPT)(self._decoded)

    def add(self, files: int, records: int, cost: int, size: int, costs: _Costs) -> None:
        """Add a block; `costs`: the costs at its end."""
        for numbers, number in zip(
            (self.files, self.counts, self.costs, self.sizes),
            (files, records, cost, size),
            strict=True,
        ):
            numbers.append(number)
        if records:
            self._last = len(self.files) - 1
        self._begins.append(costs.state)

    def open(self, records: TFRecords, path: str) -> None:
        """Begin reading: all blocks were added."""
        self._records, self._path = records, path
        self._rest_cost = self._begins[-1][-1]
        if self.costs:
            self.costs[self._last] += self._rest_cost
        columns = self.files, self.sizes, self.counts
        self._before = [list(accumulate(column, initial=0)) for column in columns]

    def load(self, block: int) -> list[int]:
        costs = _Costs(self._begins[block])
        found = [cost for piece in self._pieces(block) for cost in costs.of(piece)]
        if block == self._last and found:
            found[-1] += self._rest_cost
        return found

    def cuts(self, firsts: Iterable[int]) -> tuple[list[int], list[Cut]]:
        """Return the cuts at these records, which are in the blocks that were read last."""
        files, sizes, _ = self._before
        records = []
        begins = []
        for first in firsts:
            records.append(first)
            begins.append(self._at(first) if first else (Place(0, 0), 0, 0))
        ends = [*begins[1:], (Place(0, 0), files[-1], sizes[-1])]
        return records, [
            (*place, end[1] - before, end[2] - size)
            for (place, before, size), end in zip(begins, ends, strict=True)
        ]

    def _at(self, record: int) -> tuple[Place, int, int]:
        """Return where a record begins, and how many files and bytes are before it."""
        files, sizes, records = self._before
        block = bisect_right(records, record) - 1
        left = record - records[block]
        file = size = 0
        for piece in self._pieces(block) if left or self.counts[block] < self.files[block] else ():
            if piece.record_count and not left:
                break
            taken = min(left, piece.file_count) if piece.record_count else piece.file_count
            left -= min(left, piece.record_count)
            file, size = file + taken, size + sum(piece.sizes[:taken])
            if taken < piece.file_count:
                break
        found = files[block] + file, sizes[block] + size
        # Blocks of only links and empty directories go with the next file.
        while not file and block > 0 and not self.files[block - 1]:
            block -= 1
        return Place(block, file), *found

    def _decoded(self, block: int) -> list[Piece]:
        assert self._records is not None
        return decode(self._records.read([block + 1])[0], self._path)


class PlanWriter(Closing):
    """Writes the plan `path`, which appears whole at finish(). `header`: its first record.

    `mode`: its permissions (None: by the umask). `has_times`: files keep their own. Raises
    PackError if a file exists that is no plan, OSError.
    """

    def __init__(
        self,
        path: str,
        header: Mapping[str, object],
        *,
        mode: int | None = None,
        has_times: bool = True,
    ) -> None:
        self._place = os.path.realpath(path)  # a link leads to the file that is replaced
        self._refuse_foreign()
        self._file = StagedFile(path, mode=mode)
        with naming(path), contextlib.ExitStack() as failed:
            failed.callback(self._file.close)
            self._records = TFRecordWriter(self._file.place)
            self._records.write(json.dumps({"version": VERSION, **header}))
            failed.pop_all()
        self._blocks = _Blocks()
        self._costs = _Costs()
        self._digest = hashlib.sha256()
        self._listed = ListingDigest(has_times=has_times)
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
            self._own += part.record_count
            self._links += len(part.links)
            if part.record_count:
                begin = "" if part.folder == self._costs.folder else f"\0{part.folder}\0"
                self._listed.add(
                    f"{begin}{'/'.join(part.names)}/".encode(),
                    array("Q", part.sizes).tobytes(),
                    array("q", part.mtimes_ns).tobytes(),
                )
            self._cost += sum(self._costs.of(part))
            self._size += sum(part.sizes)

    def digest(self) -> str:
        """Return the digest of the pieces added so far, the same for equal listings."""
        return self._digest.hexdigest()

    def set_id(self, options: PackOptions) -> bytes:
        """Return the id of the set that was added, cut so."""
        return self._listed.set_id(options)

    def finish(self, options: PackOptions, size_max: int | None = None, **more: object) -> None:
        """Cut the listing into shards, and give the file its name; `more`: of its last record.

        Raises PackError if the files of a shard, which is to be copied, have over `size_max` bytes.
        """
        self._end_block()
        with naming(self._file.path):
            self._records.flush()
        records = TFRecords([os.fsencode(self._file.place)], sidecar=False)
        self._blocks.open(records, self._file.path)
        firsts, cuts = self._blocks.cuts(cut(self._blocks, options.shards, options.shard_size))
        records.close()
        if size_max is not None and max(size for *_, size in cuts) > size_max:
            raise PackError(
                f"{self._file.path}: a bucket adds shards of at most {size_max >> 30} GiB by a "
                "plan; make more of them, or append without it"
            )
        table = {
            "files": sum(self._blocks.files),
            "bytes": sum(self._blocks.sizes),
            "blocks": len(self._blocks.files),
            "shards": cuts,
            "records": firsts,
            **more,
        }
        with naming(self._file.path):
            self._records.write(json.dumps(table, separators=(",", ":")))
            self._records.close()
        self._refuse_foreign()  # once more: listing may take hours
        self._file.publish()

    def _refuse_foreign(self) -> None:
        refuse_foreign(self._place, _is_plan, "a plan")

    def _begin_block(self) -> None:
        self._lines: list[str] = []
        self._files = self._own = self._links = self._cost = self._size = 0

    def _end_block(self) -> None:
        if self._lines:
            with naming(self._file.path):
                self._records.write(encode(self._lines))
            self._blocks.add(self._files, self._own, self._cost, self._size, self._costs)
        self._begin_block()

    def close(self) -> None:
        """Drop the plan, unless it is finished."""
        with contextlib.suppress(OSError):  # the disk may be full
            self._records.close()
        self._file.close()


def _is_plan(begin: bytes) -> bool:
    return is_header(begin) and begin.startswith(_BEGIN, HEADER.size)


class PlanFile(Closing):
    """The plan at `path`. Raises FormatError, ChecksumError for one that is damaged, OSError."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._records = TFRecords([os.fsencode(path)], sidecar=False)
        except FormatError:
            raise bad_plan(path, "it is not a plan of ffrfs") from None
        self.first = self._json(0)
        if self.first.get("version") != VERSION:
            raise bad_plan(path, f"it is of version {self.first.get('version')!r}")
        self.table = table = self._json(self._records.count - 1)
        try:
            self.file_count, self.byte_count = int(table["files"]), int(table["bytes"])
            # Paths that skip_special left out.
            self.skipped = [str(path) for path in table.get("skipped", ())]
            self.shards = list(self._parts(table["shards"], int(table["blocks"])))
        except (KeyError, TypeError, ValueError, OverflowError):
            raise bad_plan(path, "its table is damaged") from None

    def pieces(self, number: int) -> Pieces:
        """Return the pieces of shard `number`, counted from 0, in the order of its records."""
        part = self.shards[number]
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
            raise bad_plan(self.path, "it is not a plan of ffrfs") from None
        if not isinstance(value, dict):
            raise bad_plan(self.path, "it is not a plan of ffrfs")
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


def _parts(piece: Piece) -> Iterator[Piece]:
    """Yield parts with as many files, and links, as a block holds."""
    while len(piece.links) > BLOCK_COUNT:
        yield replace(piece.chosen(()), links=piece.links[:BLOCK_COUNT])
        piece = replace(piece, links=piece.links[BLOCK_COUNT:])
    for first in range(0, max(piece.file_count, 1), BLOCK_COUNT):
        yield piece.part(first, first + BLOCK_COUNT)
