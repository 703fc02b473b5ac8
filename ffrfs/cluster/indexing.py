"""Writes sidecars by an executor, a file a task. A sidecar appears whole, so a task may run twice.

Not here: writing one (ffrfs/folder/sidecar.py, ffrfs/tfrecord/sidecar.py).
Concurrency: one thread drives; tasks share nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from ffrfs.cluster.file_task import FileTask, run_files
from ffrfs.folder.sidecar import carries_index, write_sidecar
from ffrfs.folder.tree import pack_files
from ffrfs.remote.paths import absolute
from ffrfs.tfrecord.shards import is_tfrecord, shard_paths
from ffrfs.tfrecord.sidecar import write_sidecar as write_tfrecord_sidecar


@dataclass(frozen=True)
class IndexTask(FileTask[str | None]):
    is_tfrecord: bool
    chunks: bool

    def run(self) -> str | None:
        """Return the sidecar's path; None: the pack has an index already."""
        if self.is_tfrecord:
            return write_tfrecord_sidecar(self.file)
        return None if carries_index(self.file) else write_sidecar(self.file, self.chunks)


def write_sidecars(
    paths: Sequence[str],
    executor: Executor,
    *,
    chunks: bool = False,
    seen: Callable[[str, str | None], object],
) -> None:
    """Write the missing sidecars of `paths`; `seen(file, sidecar)` is called for each file.

    `file` is absolute. Raises FormatError, UnsafeIndexError, ChecksumError for a pack that is not
    sound, OSError.
    """
    tasks = []
    for path in paths:
        of_tfrecord = is_tfrecord(path)
        files = shard_paths(path) if of_tfrecord else pack_files(path)
        tasks += [IndexTask(absolute(file), of_tfrecord, chunks) for file in files]
    run_files(executor, tasks, lambda task, sidecar: seen(task.file, sidecar))
