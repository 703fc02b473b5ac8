"""verify: reads every record of FFRecord files and compares its checksum.

A packed folder's damaged files are named by path. If the pickle is damaged, the records are
checked all the same. A mapped index, in the pack or beside it, is read to its last byte and
compared with the pickle. One pack that is no good does not hide the others.

Not here: the checking (native core), what to print (ffrfs.cli).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ffrfs._native import PackIndex, Records, claimed_records
from ffrfs.errors import (
    ChecksumError,
    FormatError,
    PackWarning,
    UnverifiedHeaderWarning,
    is_shortage,
    text_within,
)
from ffrfs.folder.progress import Progress
from ffrfs.folder.tree import PackTree, PathType, pack_files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Bytes checked between two looks at Ctrl-C; a larger record is checked in one go.
_STEP_SIZE = 256 << 20
_STEP_COUNT = 1 << 20


class BadRecord(NamedTuple):
    record: int
    path: str | None  # None: the record is no file, or the index that would say is damaged
    reason: str


class PackReport(NamedTuple):
    """What is wrong with one file."""

    file: str
    record_count: int
    byte_count: int
    header_verified: bool  # False: it carries no checksum
    index_error: str | None  # what is wrong with a packed folder's index, either of them
    bad: list[BadRecord]
    # Why it cannot be opened, and nothing of it was checked.
    error: str | None = None

    @property
    def is_good(self) -> bool:
        return self.error is None and self.index_error is None and not self.bad


class VerifyReport(NamedTuple):
    """What is wrong with a file, or a folder of them."""

    file: str  # as it was given
    packs: list[PackReport]
    set_error: str | None = None  # the packs do not belong together: one is missing, say

    @property
    def is_good(self) -> bool:
        return self.set_error is None and all(pack.is_good for pack in self.packs)

    @property
    def record_count(self) -> int:
        return sum(pack.record_count for pack in self.packs)

    @property
    def byte_count(self) -> int:
        return sum(pack.byte_count for pack in self.packs)

    @property
    def bad_count(self) -> int:
        return sum(len(pack.bad) for pack in self.packs)


def verify(
    paths: Sequence[PathType], progress: Progress | None = None, jobs: int = 0
) -> list[VerifyReport]:
    """Read all of `paths`, packs and folders of packs, each a report of its own.

    `jobs`: threads; 0: as many as there are cores. Raises FormatError or OSError for a path
    that cannot be opened; one in a folder is in the report. Warns (UnverifiedHeaderWarning,
    PackWarning) of what is taken on trust or left aside.
    """
    names = [os.fspath(path) for path in paths]
    files = [pack_files(name) for name in names]
    verifier = _Verifier(list(chain.from_iterable(files)), progress, jobs)
    reports = []
    for name, packs in zip(names, files, strict=True):
        if os.path.isdir(name):
            found = [verifier.run_one_of_many(file) for file in packs]
            set_error = _set_error(name) if all(pack.is_good for pack in found) else None
            reports.append(VerifyReport(name, found, set_error))
        else:
            reports.append(VerifyReport(name, [verifier.run(file) for file in packs]))
    return reports


def _set_error(folder: str) -> str | None:
    """Say why good packs are no tree together."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of each pack they were told
            PackTree(folder).close()
    except FormatError as error:
        return text_within(error, folder)
    return None


class _Verifier:
    def __init__(self, files: Sequence[str], progress: Progress | None, jobs: int) -> None:
        self._progress = progress
        self._jobs = jobs
        totals = [_claims(file) for file in files] if progress is not None else []
        self._total_count = sum(count for count, _ in totals)
        self._total_size = sum(size for _, size in totals)
        self._done_count = self._done_size = 0  # of the files before

    def run_one_of_many(self, file: str) -> PackReport:
        try:
            return self.run(file)
        except (FormatError, OSError) as error:
            if is_shortage(error):
                raise
            return PackReport(
                file=file,
                record_count=0,
                byte_count=0,
                header_verified=False,
                index_error=None,
                bad=[],
                error=text_within(error, file),
            )

    def run(self, file: str) -> PackReport:
        records = Records([os.fsencode(file)])
        if records.unverified_paths:
            warnings.warn(UnverifiedHeaderWarning.of(file), stacklevel=4)
        index = PackIndex(os.fsencode(file))
        index_error = _index_error(index)
        tree, tree_error = _open_tree(file, records)
        offsets = records.offsets(0)
        bad: list[BadRecord] = []
        byte_count = int(offsets[-1] - offsets[0])
        for first, end in _steps(offsets):
            for record, error in records.verify(first, end - first, self._jobs, index):
                bad.append(BadRecord(record, _path(tree, record), text_within(error, file)))
            self._tell(end, int(offsets[end] - offsets[0]))
        self._done_count += records.count
        self._done_size += byte_count
        return PackReport(
            file=file,
            record_count=records.count,
            byte_count=byte_count,
            header_verified=not records.unverified_paths,
            index_error=index_error or tree_error,
            bad=bad,
        )

    def _tell(self, count: int, size: int) -> None:
        if self._progress is not None:
            count, size = self._done_count + count, self._done_size + size
            self._progress(count, max(count, self._total_count), size, max(size, self._total_size))


def _claims(file: str) -> tuple[int, int]:
    """Records and bytes of `file`, as its header says: for progress only."""
    try:
        return claimed_records(os.fsencode(file))
    except OSError:
        return 0, 0


def _index_error(index: PackIndex) -> str | None:
    """Say what is wrong with a mapped index. A sidecar of what the pack once was is no damage."""
    if index.is_stale:
        warnings.warn(PackWarning(index.warning), stacklevel=5)
    elif index.warning:
        return index.warning_within
    return index.find_fault() or None


def _open_tree(file: str, records: Records) -> tuple[PackTree | None, str | None]:
    """Open the tree, or say why its index is no good."""
    if records.count == 0:
        return None, None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are reported
            return PackTree(file), None
    except (FormatError, ChecksumError) as error:
        return None, text_within(error, file)


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
    """The path that shows `record`; None also if the index that knows it is damaged."""
    if tree is None:
        return None
    try:
        ino = tree.volume.file_of(record)
        return tree.path(ino) if ino else None
    except (FormatError, ChecksumError, OSError):
        return None
