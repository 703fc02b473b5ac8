"""verify: every record of an FFRecord file, read and held against its checksum.

A packed folder's damaged files are named by path. If the index itself is damaged, the
records are checked all the same.

Not here: the checking (native core), what to print (ffrfs.cli).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ffrfs._native import Records
from ffrfs.errors import ChecksumError, FormatError, UnverifiedHeaderWarning
from ffrfs.folder.progress import Progress
from ffrfs.folder.tree import PackTree, PathType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Bytes checked between two looks at Ctrl-C; a larger record is checked in one go.
_STEP_SIZE = 64 << 20
_STEP_COUNT = 65536


class BadRecord(NamedTuple):
    record: int
    path: str | None  # None: the record is no file, or the index that would say is damaged
    reason: str


class VerifyReport(NamedTuple):
    record_count: int
    byte_count: int
    header_verified: bool  # False: it carries no checksum
    index_error: str | None  # what is wrong with a packed folder's index
    bad: list[BadRecord]

    @property
    def is_good(self) -> bool:
        return self.index_error is None and not self.bad


def verify(file: PathType, progress: Progress | None = None) -> VerifyReport:
    """Read all of `file`. Raises FormatError or OSError if it cannot be opened.

    Warns (UnverifiedHeaderWarning) if its header carries no checksum.
    """
    name = os.fspath(file)
    records = Records([os.fsencode(name)])
    tree, index_error = _open_tree(name, records)
    offsets = records.offsets(0)
    bad: list[BadRecord] = []
    byte_count = int(offsets[-1] - offsets[0])
    for first, end in _steps(offsets):
        for record, reason in records.verify(first, end - first):
            bad.append(BadRecord(record, _path(tree, record), reason.removeprefix(f"{name}: ")))
        if progress is not None:
            progress(end, records.count, int(offsets[end] - offsets[0]), byte_count)
    return VerifyReport(
        record_count=records.count,
        byte_count=byte_count,
        header_verified=not records.unverified_paths,
        index_error=index_error,
        bad=bad,
    )


def _open_tree(name: str, records: Records) -> tuple[PackTree | None, str | None]:
    """Open the tree, or say why its index is no good."""
    try:
        if records.count > 0:
            return PackTree(name), None
        reason = None
    except (FormatError, ChecksumError) as error:
        reason = str(error).removeprefix(f"{name}: ")
    if records.unverified_paths:
        warnings.warn(UnverifiedHeaderWarning.of(name), stacklevel=3)
    return None, reason


def _steps(offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Cut the records into ranges (first, end) of about _STEP_SIZE bytes."""
    first, count = 0, len(offsets) - 1
    while first < count:
        limit = offsets[first] + _STEP_SIZE
        end = max(first + 1, int(offsets.searchsorted(limit, side="right")) - 1)
        end = min(end, first + _STEP_COUNT, count)
        yield first, end
        first = end


def _path(tree: PackTree | None, record: int) -> str | None:
    ino = tree.volume.file_of(record) if tree is not None else 0
    return tree.path(ino) if tree is not None and ino else None
