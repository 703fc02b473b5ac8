"""Verifies packs and TFRecord files by an executor, a file a task.

Not here: verifying a file (ffrfs/folder/verify.py, ffrfs/tfrecord/verify.py).
Concurrency: one thread drives; tasks share nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from ffrfs.cluster.file_task import FileTask, run_files, sizes_of
from ffrfs.folder import verify as packs
from ffrfs.folder.progress import Progress
from ffrfs.remote.paths import absolute, is_folder
from ffrfs.tfrecord.shards import shard_paths

if TYPE_CHECKING:  # so that a process of a pool loads only what its files need
    from ffrfs.tfrecord import verify as tfrecords


@dataclass(frozen=True)
class VerifyTask(FileTask[packs.PackReport]):
    """A file to verify. Raises FormatError, OSError if it cannot be opened, unless one of many."""

    is_one_of_many: bool  # then the report names a file that cannot be opened

    def run(self) -> packs.PackReport:
        return packs.verify_file(self.file, is_one_of_many=self.is_one_of_many)


def verify_packs(
    paths: Sequence[str],
    executor: Executor,
    progress: Progress | None = None,
    found: packs.Found = packs.not_told,
) -> list[packs.VerifyReport]:
    """Verify as ffrfs.folder.verify.verify_packs() does."""
    files = packs.files_of(paths)
    tasks = [
        VerifyTask(absolute(file), packs.is_many(paths, path))
        for path, of_path in zip(paths, files, strict=True)
        for file in of_path
    ]
    names = dict(zip(tasks, chain.from_iterable(files), strict=True))
    total_count, total_size = packs.claims_of([task.file for task in tasks]) if progress else (0, 0)
    count = size = 0

    def seen(task: VerifyTask, report: packs.PackReport) -> None:
        nonlocal count, size
        packs.tell(found, report._replace(file=names[task]))
        count, size = count + report.record_count, size + report.byte_count
        if progress is not None:
            progress(count, max(count, total_count), size, max(size, total_size))

    ended = iter(run_files(executor, tasks, seen))
    reports = []
    for path, of_path in zip(paths, files, strict=True):
        own = [next(ended)._replace(file=file) for file in of_path]
        is_set = is_folder(path) and all(report.is_good for report in own)
        reports.append(packs.VerifyReport(path, own, packs.set_error(path) if is_set else None))
    return reports


@dataclass(frozen=True)
class VerifyRecordsTask(FileTask["tfrecords.VerifyReport"]):
    def run(self) -> tfrecords.VerifyReport:
        from ffrfs.tfrecord import verify as tfrecords

        return tfrecords.verify([self.file])


def verify_tfrecords(
    path: str,
    executor: Executor,
    progress: Progress | None = None,
    found: tfrecords.Found = lambda _: None,
) -> tfrecords.VerifyReport:
    """Verify as ffrfs.tfrecord.verify.verify(); `progress` counts records, and bytes of files."""
    from ffrfs.tfrecord import verify as tfrecords

    files = shard_paths(path)
    tasks = [VerifyRecordsTask(absolute(file)) for file in files]
    names = dict(zip(tasks, files, strict=True))
    sizes = dict(zip(tasks, sizes_of(files), strict=True)) if progress else {}
    whole_size = sum(sizes.values())
    count = size = 0

    def seen(task: VerifyRecordsTask, report: tfrecords.VerifyReport) -> None:
        nonlocal count, size
        for record in report.bad:
            found(record._replace(file=names[task]))
        if progress is not None:
            count, size = count + report.record_count, size + sizes[task]
            progress(count, 0, size, whole_size)

    reports = run_files(executor, tasks, seen)
    bad = [
        record._replace(file=file)
        for file, report in zip(files, reports, strict=True)
        for record in report.bad
    ]
    record_count = sum(report.record_count for report in reports)
    byte_count = sum(report.byte_count for report in reports)
    return tfrecords.VerifyReport(record_count, byte_count, bad)
