"""Checks an object of a cache: its state file against its data, its data against checksums.

In an FFRecord file (a pack is one), every record whose blocks are all cached is compared with
its checksum. For other files the cache has no checksums; the report says so.

Not here: repair (`ffrfs cache rm`; readers fetch a bad block again by themselves).
Concurrency: one thread; blocks that change meanwhile are skipped.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ffrfs.cache.eviction import Files
from ffrfs.cache.sparse import data_ranges
from ffrfs.cache.state_file import BLOCK_SIZE

if TYPE_CHECKING:
    from numpy.typing import NDArray

_START = struct.Struct("<Iq")  # FFRecord: checksum of the header, number of records
_PIECE = 1 << 20


@dataclass
class CheckReport:
    """`records`: how many were compared with their checksums; None: `why_not` says why none."""

    records: int | None = None
    why_not: str = ""
    problems: list[str] = field(default_factory=list)


def check_object(files: Files) -> CheckReport:
    report = CheckReport()
    there = np.zeros(files.state.block_count, bool)
    there[files.present()] = True
    report.problems += _holes(files, there)
    _check_records(files, there, report)
    return report


def _holes(files: Files, there: NDArray[np.bool_]) -> Iterator[str]:
    """Blocks that the state file calls present, and that are a hole, or partly."""
    covered = np.zeros(len(there), np.int64)
    for begin, end in data_ranges(files.data, 0, files.state.size):
        first, last = begin // BLOCK_SIZE, (end - 1) // BLOCK_SIZE
        covered[first : last + 1] += BLOCK_SIZE
        covered[first] -= begin - first * BLOCK_SIZE
        covered[last] -= (last + 1) * BLOCK_SIZE - end
    for block in map(int, np.flatnonzero(there)):
        if covered[block] < files.state.size_of(block) and files.is_there(block):
            yield f"block {block:,} is marked as cached, but the data file has a hole there"


def _check_records(files: Files, there: NDArray[np.bool_], report: CheckReport) -> None:
    """Of an FFRecord file, the records whose blocks are all present."""
    try:
        checksums, offsets = _read_header(files, there)
    except ValueError as error:
        report.why_not = str(error)
        return
    report.records = 0
    before = np.concatenate(([0], np.cumsum(there)))
    for record, (crc, begin, end) in enumerate(
        zip(checksums.tolist(), offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    ):
        first, last = begin // BLOCK_SIZE, -(-end // BLOCK_SIZE)
        if before[last] - before[first] < last - first:
            continue
        report.records += 1
        is_good = _crc(files, begin, end) == crc
        # Evicted meanwhile, it reads as zeros.
        if not is_good and all(map(files.is_there, range(first, last))):
            report.problems.append(
                f"record {record:,} does not match its checksum (blocks {first:,} to {last - 1:,})"
            )


def _read_header(
    files: Files, there: NDArray[np.bool_]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Checksums, and offsets with the end of the file. Raises ValueError: why there are none."""
    size = files.state.size
    not_one = "not an FFRecord file, so the cache has no checksums for it"
    absent = "its header is not cached, so its records cannot be checked"
    if size < _START.size or (there[0] and _header_end(files) > size):
        raise ValueError(not_one)
    if not there[0] or not there[: -(-_header_end(files) // BLOCK_SIZE)].all():
        raise ValueError(absent)
    end = _header_end(files)
    crc, count = _START.unpack(_read(files, 0, _START.size))
    if crc == 0 or end != _START.size + 12 * count or _crc(files, 4, end) != crc:
        raise ValueError("its header does not match its checksum: not an FFRecord file, or damaged")
    checksums = np.frombuffer(_read(files, _START.size, _START.size + 4 * count), "<u4")
    offsets = np.frombuffer(_read(files, _START.size + 4 * count, end), "<i8")
    bounds = np.append(offsets, size)
    if count and (offsets[0] < end or (np.diff(bounds) < 0).any()):
        raise ValueError("its header is damaged")
    return checksums, bounds


def _header_end(files: Files) -> int:
    """Beyond the end of any file if the count is negative."""
    _, count = _START.unpack(_read(files, 0, _START.size))
    return _START.size + 12 * int(count) if count >= 0 else 1 << 63


def _read(files: Files, begin: int, end: int) -> bytes:
    """Zeros beyond the end of a file that another process has truncated."""
    parts = []
    while begin < end:
        part = os.pread(files.data, min(end - begin, _PIECE), begin)
        if not part:
            parts.append(bytes(end - begin))
            break
        parts.append(part)
        begin += len(part)
    return b"".join(parts)


def _crc(files: Files, begin: int, end: int) -> int:
    from ffrfs._native import crc32

    crc = 0
    for offset in range(begin, end, _PIECE):
        crc = crc32(_read(files, offset, min(end, offset + _PIECE)), crc)
    return crc
