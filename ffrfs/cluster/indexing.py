"""Writes sidecars by an executor, a file a task. A sidecar appears whole, so a task may run twice.

Not here: writing one (ffrfs/folder/sidecar.py, ffrfs/tfrecord/sidecar.py).
Concurrency: one thread drives; tasks share nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from ffrfs.cluster.file_task import Environment, Told, absolute, carried, run_files, with_warnings
from ffrfs.convert.kind import is_tfrecord
from ffrfs.folder.sidecar import carries_index, write_sidecar
from ffrfs.folder.tree import pack_files
from ffrfs.remote.paths import let_urls_in
from ffrfs.tfrecord.shards import shard_paths
from ffrfs.tfrecord.sidecar import write_sidecar as write_tfrecord_sidecar


@dataclass(frozen=True)
class IndexTask:
    file: str
    is_tfrecord: bool
    chunks: bool
    environment: Environment


def _tasks(paths: Sequence[str], chunks: bool) -> list[IndexTask]:
    environment = carried()
    tasks = []
    for path in paths:
        of_tfrecord = is_tfrecord(path)
        files = shard_paths(path) if of_tfrecord else pack_files(path)
        tasks += [IndexTask(absolute(file), of_tfrecord, chunks, environment) for file in files]
    return tasks


def run_index(task: IndexTask) -> Told[str | None]:
    """Return the sidecar's path; None: the pack has an index already. Raises as write_sidecar()."""
    os.environ.update(task.environment)
    let_urls_in([task.file])
    return with_warnings(lambda: _write(task))


def _write(task: IndexTask) -> str | None:
    if task.is_tfrecord:
        return write_tfrecord_sidecar(task.file)
    return None if carries_index(task.file) else write_sidecar(task.file, task.chunks)


def write_sidecars(
    paths: Sequence[str],
    executor: Executor,
    *,
    chunks: bool = False,
    seen: Callable[[str, str | None], object],
) -> None:
    """Write what each file of `paths` lacks; `seen(file, sidecar)` is called for each.

    `file` is absolute. Raises FormatError, UnsafeIndexError, ChecksumError for a pack that is not
    sound, OSError.
    """
    tasks = _tasks(paths, chunks)
    run_files(executor, run_index, tasks, lambda task, sidecar: seen(task.file, sidecar))
