"""Checks an object of a cache: its state file against its data, its data against checksums.

In an FFRecord file (a pack is one), every record whose blocks are all cached is compared with its
checksum. For other files the cache has no checksums; the report says so. A file that is named *.ffr
and begins otherwise is damaged.

Not here: repair (`ffrfs cache rm`; readers fetch a bad block again by themselves).
Concurrency: one thread; blocks that change meanwhile are skipped.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ffrfs.cache.files import Files
from ffrfs.cache.sparse import data_ranges
from ffrfs.cache.state_file import BLOCK_SIZE
from ffrfs.errors import ChecksumError, FormatError, text_within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ffrfs._native import Pack


@dataclass
class CheckReport:
    """The result for an object. `records`: how many were compared; None: see `why_not`."""

    records: int | None = None
    why_not: str = ""
    problems: list[str] = field(default_factory=list)


def check_object(files: Files, url: str) -> CheckReport:
    report = CheckReport()
    there = files.state.flags(files.present())
    report.problems += _holes(files, there)
    _check_records(files, there, url.endswith(".ffr"), report)
    return report


def _holes(files: Files, there: NDArray[np.bool_]) -> list[str]:
    """Return a problem if blocks that are marked as present are, at least partly, holes."""
    covered = np.zeros(len(there), np.int64)
    for begin, end in data_ranges(files.data, 0, files.state.size):
        first, last = begin // BLOCK_SIZE, (end - 1) // BLOCK_SIZE
        covered[first : last + 1] += BLOCK_SIZE
        covered[first] -= begin - first * BLOCK_SIZE
        covered[last] -= (last + 1) * BLOCK_SIZE - end
    covered[-1:] += BLOCK_SIZE - files.state.size_of(len(there) - 1)
    is_hole = there & (covered < BLOCK_SIZE)
    count, first = 0, 0
    for part in files.present():  # again: blocks may have been evicted meanwhile
        holes = part[is_hole[part]]
        first = first if count or not len(holes) else int(holes[0])
        count += len(holes)
    if not count:
        return []
    more = f" (and {count - 1:,} more)" if count > 1 else ""  # one line, however many there are
    return [f"block {first:,}{more} is marked as cached, but the data file has a hole there"]


def _check_records(
    files: Files, there: NDArray[np.bool_], is_pack: bool, report: CheckReport
) -> None:
    """Check the records of an FFRecord file whose blocks are all present."""
    place = f"/proc/self/fd/{files.data}".encode()
    try:
        pack, offsets = _opened(files, there, is_pack, place)
    except (FormatError, ChecksumError) as error:
        report.why_not = f"its header is no good: {text_within(error, os.fsdecode(place))}"
        # Blocks that were evicted meanwhile read as zeros.
        if sum(int(there[part].sum()) for part in files.present()) == there.sum():
            report.problems.append(report.why_not)
        return
    except ValueError as error:
        report.why_not = str(error)
        return
    report.records = 0
    before = np.concatenate(([0], np.cumsum(there)))
    for record, (begin, end) in enumerate(pairwise(offsets.tolist())):
        first, last = begin // BLOCK_SIZE, -(-end // BLOCK_SIZE)
        if before[last] - before[first] < last - first:
            continue
        report.records += 1
        # A record that was evicted meanwhile reads as zeros, so its blocks are looked up again.
        if pack.verify(record, 1, 1) and all(map(files.is_there, range(first, last))):
            report.problems.append(
                f"record {record:,} does not match its checksum (blocks {first:,} to {last - 1:,})"
            )


def _opened(
    files: Files, there: NDArray[np.bool_], is_pack: bool, place: bytes
) -> tuple[Pack, NDArray[np.int64]]:
    """Return the file's pack and offsets.

    Raises FormatError or ChecksumError if it is damaged, ValueError if nothing can be checked.
    """
    from ffrfs._native import Pack, claimed_records

    absent = "its header is not cached, so its records cannot be checked"
    if not there[:1].all():
        raise ValueError(absent)
    count, size = claimed_records(place)
    if not (count and size) and not is_pack:
        raise ValueError("not an FFRecord file, so the cache has no checksums for it")
    if count and not there[: -(-(files.state.size - size) // BLOCK_SIZE)].all():
        raise ValueError(absent)
    pack = Pack(place)
    if not pack.header_verified:
        raise ValueError("its header carries no checksum, so its records cannot be checked")
    return pack, pack.offsets()
