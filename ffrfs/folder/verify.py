"""verify: reads every record of a data set and compares its checksum.

A pack's damaged files are named by path. If the pickle is damaged, the records are
checked all the same. A mapped index, in the pack or beside it, is read to its last byte and
compared with the pickle. A bad pack does not hide the others.

Not here: the checking (native core; ffrfs/tfrecord/verify.py), printing (ffrfs.cli).
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ffrfs._native import Pack, claimed_records
from ffrfs.errors import (
    ChecksumError,
    FormatError,
    PackWarning,
    RemoteError,
    UnverifiedHeaderWarning,
    hearing,
    is_shortage,
    text_within,
    warn,
)
from ffrfs.folder.progress import Progress
from ffrfs.folder.tree import PackTree, PathType, pack_files
from ffrfs.printable import shown_name
from ffrfs.remote.paths import is_folder
from ffrfs.tfrecord.shards import is_tfrecord, shard_paths

if TYPE_CHECKING:  # importing it takes a sixth of the time of a small verification
    from ffrfs.tfrecord import verify as tfrecords

STEP_SIZE = 256 << 20  # bytes that are checked at a time
_STEP_COUNT = 1 << 16  # records; an error takes 1 KB until its step ends
_SETS_NAMED_MAX = 5

# Called with each fault of a file when it is found: the file, a path in it or None, and a reason.
Found: TypeAlias = Callable[[str, str | None, str], object]


def not_told(file: str, path: str | None, reason: str) -> None:
    """Do nothing: the Found of callers that read the report."""


class BadRecord(NamedTuple):
    record: int
    path: str | None  # None: the record is not a file, or the index that would say is damaged
    reason: str


class PackReport(NamedTuple):
    """The result for one file."""

    file: str
    record_count: int
    byte_count: int
    header_verified: bool  # False: the header has no checksum
    index_error: str | None  # the fault of the pack's index, of either kind
    bad: list[BadRecord]
    # The reason why it cannot be opened; nothing in it was checked then.
    error: str | None = None

    @property
    def is_good(self) -> bool:
        return self.error is None and self.index_error is None and not self.bad


class VerifyReport(NamedTuple):
    """The result for a file, or a directory of them."""

    file: str  # the caller's path
    packs: list[PackReport]
    set_error: str | None = None  # the packs do not fit together: for example one is missing

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


def verify(path: PathType, *, jobs: int = 0, progress: Progress | None = None) -> dict[str, Any]:
    """Read all of `path`: a pack, a TFRecord file of any compression, or a directory of either.

    Returns the keys of `ffrfs verify --json`: "good" is whether all is well, "bad" is a list of
    the damaged records: dicts with "record", "path" and "reason". For a directory of packs,
    "packs" has these keys for each. `jobs`: threads; 0: one per core. `progress`: called with
    records done, records in all, bytes done, bytes in all; 0 in all: unknown.

    Damage is in the result; raises FormatError or OSError for a file that cannot be opened or
    read at all.
    """
    name = os.fspath(path)
    if is_tfrecord(name):
        return tfrecord_fields(name, verify_tfrecord(name, progress))
    (report,) = verify_packs([name], progress, jobs)
    return report_fields(report)


def verify_tfrecord(
    path: str, progress: Progress | None, found: tfrecords.Found | None = None
) -> tfrecords.VerifyReport:
    from ffrfs.tfrecord import verify as tfrecords

    if progress is None:
        return tfrecords.verify(shard_paths(path), found=found)
    tell = progress
    files = shard_paths(path)
    return tfrecords.verify(files, lambda records, size: tell(records, 0, size, 0), found)


def verify_packs(
    paths: Sequence[PathType],
    progress: Progress | None = None,
    jobs: int = 0,
    found: Found = not_told,
) -> list[VerifyReport]:
    """Read all of `paths`, packs and directories of packs; return a report for each.

    `jobs`: threads; 0: as many as there are cores. `found` and `progress` are called after each
    step of STEP_SIZE; a larger record is checked in one step.

    Raises FormatError or OSError for a single path that cannot be opened; one of several, or a file
    in a directory, is in the report. Warns (UnverifiedHeaderWarning, PackWarning) of parts that are
    not verified or ignored.
    """
    names = [os.fspath(path) for path in paths]
    files = files_of(names)
    verifier = _Verifier(list(chain.from_iterable(files)), progress, jobs, found)
    reports = []
    for name, packs in zip(names, files, strict=True):
        run = verifier.run_one_of_many if is_many(names, name) else verifier.run
        ended = [run(file) for file in packs]
        is_set = is_folder(name) and all(pack.is_good for pack in ended)
        reports.append(VerifyReport(name, ended, set_error(name) if is_set else None))
    return reports


def files_of(paths: Sequence[str]) -> list[list[str]]:
    """Return the packs of each path; of several paths, one without packs is returned itself.

    Verifying it then says why. Raises FormatError, OSError for a single path.
    """
    return [_files(path, is_alone=len(paths) == 1) for path in paths]


def _files(path: str, *, is_alone: bool) -> list[str]:
    try:
        return pack_files(path)
    except (FormatError, OSError) as error:
        if is_alone or is_of_no_pack(error):
            raise
    return [path]


def is_of_no_pack(error: BaseException) -> bool:
    """Return whether no pack is to blame: a shortage, or a fetcher that cannot be started."""
    return is_shortage(error) or (type(error) is RemoteError and error.file is None)


def is_many(paths: Sequence[str], path: str) -> bool:
    """Return whether the report of `path`, one of `paths`, says that a file cannot be opened."""
    return len(paths) > 1 or is_folder(path)


def verify_file(file: str, *, is_one_of_many: bool) -> PackReport:
    """Read one pack. Raises as verify_packs(), except for one of many that cannot be opened."""
    verifier = _Verifier([file], None, jobs=1)
    return verifier.run_one_of_many(file) if is_one_of_many else verifier.run(file)


def tell(found: Found, pack: PackReport) -> None:
    """Call `found` with all faults of a report."""
    _tell_records(found, pack.file, pack.bad, pack.index_error)
    if pack.index_error is not None:
        why = f"its index is damaged (all records were checked): {pack.index_error}"
        found(pack.file, None, why)
    if pack.error is not None:
        found(pack.file, None, pack.error)


def _tell_records(
    found: Found, file: str, records: Sequence[BadRecord], index_error: str | None
) -> None:
    for bad in records:
        if bad.reason != index_error:  # an error of the index is reported once, after all records
            found(file, bad.path, bad.reason)


def claims_of(files: Sequence[str]) -> tuple[int, int]:
    """Return the records and bytes of `files` by their headers: for progress only."""
    totals = [_claims(file) for file in files]
    return sum(count for count, _ in totals), sum(size for _, size in totals)


def set_error(folder: str) -> str | None:
    """Return why good packs are no tree together; plain FFRecord files need not be one."""
    if not any(Pack(os.fsencode(file)).is_folder for file in pack_files(folder)):
        return None
    try:
        with hearing():  # run() has given the warnings of each pack
            PackTree(folder).close()
    except FormatError as error:
        return text_within(error, folder) + _mixture(folder)
    return None


def _mixture(folder: str) -> str:
    """Return an addition to the error if shards of several sets are mixed, else ""."""
    sets: dict[bytes, list[str]] = {}
    for file in pack_files(folder):
        shard = Pack(os.fsencode(file)).shard
        if shard is not None:
            sets.setdefault(shard[0], []).append(os.path.basename(file))
    if len(sets) < 2:
        return ""
    each = "; ".join(
        f"{names[0]} and {len(names) - 1:,} more" if len(names) > 1 else names[0]
        for names in list(sets.values())[:_SETS_NAMED_MAX]
    )
    return (
        f"; shards of {len(sets):,} sets are mixed here ({each}): keep each set in a directory of "
        "its own"
    )


class _Verifier:
    def __init__(
        self,
        files: Sequence[str],
        progress: Progress | None,
        jobs: int,
        found: Found = not_told,
    ) -> None:
        self._progress = progress
        self._found = found
        self._jobs = jobs
        totals = claims_of(files) if progress is not None else (0, 0)
        self._total_count, self._total_size = totals
        self._done_count = self._done_size = 0  # of the files before the current one

    def run_one_of_many(self, file: str) -> PackReport:
        try:
            return self.run(file)
        except (FormatError, OSError) as error:
            if is_of_no_pack(error):
                raise
            report = PackReport(
                file=file,
                record_count=0,
                byte_count=0,
                header_verified=False,
                index_error=None,
                bad=[],
                error=text_within(error, file),
            )
        tell(self._found, report)
        return report

    def run(self, file: str) -> PackReport:
        if is_folder(file):
            pack_files(file)  # raises: it has none
        pack = Pack(os.fsencode(file))
        begin, end = pack.offset(0), pack.offset(pack.record_count)
        if not pack.header_verified:
            warn(UnverifiedHeaderWarning.of(file), stacklevel=4)
        index_error = _index_error(pack)
        tree_error = _tree_error(pack, file)
        bad: list[BadRecord] = []
        byte_count = end - begin
        for first, last in _steps(pack):
            told = len(bad)
            for record, error in pack.verify(first, last - first, self._jobs):
                path = None if tree_error else _path(pack, record)
                bad.append(BadRecord(record, path, text_within(error, file)))
            _tell_records(self._found, file, bad[told:], index_error or tree_error)
            self._tell(last, pack.offset(last) - begin)
        self._done_count += pack.record_count
        self._done_size += byte_count
        report = PackReport(
            file=file,
            record_count=pack.record_count,
            byte_count=byte_count,
            header_verified=pack.header_verified,
            index_error=index_error or tree_error,
            bad=bad,
        )
        tell(self._found, report._replace(bad=[]))
        return report

    def _tell(self, count: int, size: int) -> None:
        if self._progress is not None:
            count, size = self._done_count + count, self._done_size + size
            self._progress(count, max(count, self._total_count), size, max(size, self._total_size))


def _claims(file: str) -> tuple[int, int]:
    """Return the records and bytes of `file` by its header: for progress only."""
    try:
        return claimed_records(os.fsencode(file))
    except OSError:
        return 0, 0


def _index_error(pack: Pack) -> str | None:
    """Return the fault of a mapped index. A sidecar of an older state of the pack is no damage."""
    if pack.is_index_stale:
        warn(PackWarning(pack.warning), stacklevel=5)
    elif pack.warning:
        return pack.warning_within
    return pack.find_fault() or None


def _tree_error(pack: Pack, file: str) -> str | None:
    """Open the tree of a pack; return the fault of its index, if any."""
    if pack.record_count == 0:
        return None
    try:
        pack.open_tree()
    except (FormatError, ChecksumError) as error:
        return text_within(error, file)
    return None


def _steps(pack: Pack) -> Iterator[tuple[int, int]]:
    """Yield ranges (first, end) of records of about STEP_SIZE bytes."""
    first, count = 0, pack.record_count
    while first < count:
        limit = pack.offset(first) + STEP_SIZE
        last = min(first + _STEP_COUNT, count)
        end = bisect_right(range(last + 1), limit, lo=first + 1, key=pack.offset) - 1
        end = max(end, first + 1)
        yield first, end
        first = end


def _path(pack: Pack, record: int) -> str | None:
    """Return the path of `record`; None also if the index that has it is damaged."""
    try:
        path = pack.path_of(record)
    except (FormatError, ChecksumError, OSError):
        return None
    return None if path is None else os.fsdecode(path)


def report_fields(report: VerifyReport) -> dict[str, Any]:
    if len(report.packs) == 1 and report.packs[0].file == report.file:
        return _pack_fields(report.packs[0])
    return {
        "file": shown_name(report.file),
        "good": report.is_good,
        "records": report.record_count,
        "bytes": report.byte_count,
        "set_error": report.set_error,
        "packs": [_pack_fields(pack) for pack in report.packs],
    }


def _pack_fields(pack: PackReport) -> dict[str, Any]:
    fields: dict[str, Any] = {"file": shown_name(pack.file), "good": pack.is_good}
    if pack.error is not None:
        return {**fields, "error": pack.error}
    return {
        **fields,
        "records": pack.record_count,
        "bytes": pack.byte_count,
        "header_checksum": "good" if pack.header_verified else "missing",
        "index_error": pack.index_error,
        "bad": [bad._asdict() for bad in pack.bad],
    }


def tfrecord_fields(path: str, report: tfrecords.VerifyReport) -> dict[str, Any]:
    return {
        "file": shown_name(path),
        "good": not report.bad,
        "records": report.record_count,
        "bytes": report.byte_count,
        "bad": [bad._asdict() for bad in report.bad],
    }
