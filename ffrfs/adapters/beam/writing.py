"""WriteToTFRecord and WriteToPack: sinks of Beam.

WriteToPack plans the set by the names and sizes of all files, then groups the files by shard; a
task of `ffrfs pack` makes each shard, from a temporary directory that holds its files.

Not here: the frames of TFRecord (ffrfs.tfrecord), plans, shards and the manifest (ffrfs.cluster).
Concurrency: a bundle may run again, or twice at a time: it makes the same bytes.
"""

from __future__ import annotations

import io
import os
import tempfile
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.io import tfrecordio

from ffrfs.cluster.manifest import SetSummary, commit
from ffrfs.cluster.pack_task import PackTask, run_task
from ffrfs.cluster.planned_set import Plan
from ffrfs.cluster.planning import place_of, plan_files
from ffrfs.cluster.request import Request
from ffrfs.cluster.row import Row
from ffrfs.errors import PackError
from ffrfs.folder.compare import compare
from ffrfs.folder.tree import PackTree, PathType
from ffrfs.packing.sources.options import PackOptions
from ffrfs.remote.paths import let_urls_in
from ffrfs.tfrecord.writer import BUFFER_SIZE, FrameFile


class WriteToTFRecord(tfrecordio.WriteToTFRecord):  # type: ignore[misc]
    """Beam's WriteToTFRecord, with its arguments and file names; ffrfs makes the frames."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Beam's
        super().__init__(*args, **kwargs)
        self._sink.__class__ = _TFRecordSink


class _TFRecordSink(tfrecordio._TFRecordSink):  # type: ignore[misc]
    def open(self, temp_path: str) -> FrameFile:
        return FrameFile(_Handle(super().open(temp_path)), BUFFER_SIZE)

    def write_encoded_record(self, file_handle: FrameFile, value: bytes) -> None:
        file_handle.append(value)


class _Handle(io.RawIOBase):
    """A file of Beam's, which takes all bytes at once and does not say so."""

    def __init__(self, file: Any) -> None:  # noqa: ANN401 - of any file system
        self._file = file

    def write(self, data: Any) -> int:  # noqa: ANN401 - a buffer
        self._file.write(bytes(data))
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._file.close()


class WriteToPack(beam.PTransform):  # type: ignore[misc]
    """Write elements (path, bytes) into a new set of `num_shards` packs at `dest`.

    `dest`: a directory, or its URL, without other files. All files get the time 1970, or
    SOURCE_DATE_EPOCH, and permissions 0644: the shards are those of `ffrfs pack --reproducible
    --shards` of a directory with these files. The set is complete when its manifest exists; a
    pipeline that failed may run again. Its output is one SetSummary.

    The elements are used twice, first for their sizes: a source that gives others the second
    time is an error. A worker needs room for the files of a shard in `tmp_dir` ($TMPDIR, /tmp).

    Raises OptionError here, and in workers PackError, for paths that a pack cannot have, for two
    files of one path, and if `dest` has other files.
    """

    def __init__(self, dest: PathType, num_shards: int, tmp_dir: str | None = None) -> None:
        super().__init__()
        let_urls_in([os.fspath(dest)])
        chosen = PackOptions(shards=num_shards, reproducible=True)
        self._request = replace(Request.of(dest, dest, chosen), sources=("",))
        self._tmp_dir = tmp_dir

    def expand(self, files: Any) -> Any:  # noqa: ANN401 - untyped
        none = files.pipeline | beam.Create([(0, None)])
        sizes = files | "Sizes" >> beam.Map(lambda file: (0, (file[0], len(file[1]))))
        planned = (
            (sizes, none) | "AndNone" >> beam.Flatten() | "AllSizes" >> beam.GroupByKey()
        ) | "Plan" >> beam.ParDo(_Planning(self._request)).with_outputs("plan", "firsts")
        keyed = files | "ByShard" >> beam.Map(_keyed, pvalue.AsSingleton(planned.firsts))
        rows = (
            {"tasks": planned[None], "files": keyed}
            | "Shards" >> beam.CoGroupByKey()
            | "Make" >> beam.ParDo(_Making(self._tmp_dir))
            | "AllRows" >> beam.GroupByKey()
        )
        return rows | "Commit" >> beam.Map(_committed, pvalue.AsSingleton(planned.plan))


class _Planning(beam.DoFn):  # type: ignore[misc]
    """Yields the task of each shard; beside them the plan, and where its shards begin."""

    def __init__(self, request: Request) -> None:
        self._request = request

    def process(self, element: tuple[int, Iterable[tuple[str, int] | None]]) -> Iterator[Any]:
        files = [file for file in element[1] if file is not None]
        firsts = []
        with tempfile.TemporaryDirectory(prefix="ffrfs-beam-") as folder:
            path = os.path.join(folder, "plan")
            with closing(plan_files(files, self._request, path)) as plan:
                for number in range(len(plan)):
                    task = plan.task(number)
                    paths = (piece.path(0) for piece in task.pieces if piece.names)
                    firsts += [(place_of(first), number) for first in [*paths][:1]]
                    yield number, task
            with open(path, "rb") as file:
                yield pvalue.TaggedOutput("plan", file.read())
        yield pvalue.TaggedOutput("firsts", firsts)


def _keyed(
    file: tuple[str, bytes], firsts: Sequence[tuple[list[bytes], int]]
) -> tuple[int, tuple[str, bytes]]:
    """Return a file with the number of its shard."""
    after = bisect(firsts, place_of(file[0]), key=lambda first: first[0])
    return firsts[max(after - 1, 0)][1], file


class _Making(beam.DoFn):  # type: ignore[misc]
    """Yields the row of a shard, which is made, or is the same as the existing one."""

    def __init__(self, tmp_dir: str | None) -> None:
        self._tmp_dir = tmp_dir

    def process(self, element: tuple[int, Mapping[str, Iterable[Any]]]) -> Iterator[Any]:
        [task] = element[1]["tasks"]
        with tempfile.TemporaryDirectory(prefix="ffrfs-beam-", dir=self._tmp_dir) as root:
            count = sum(1 for file in element[1]["files"] if _stage(root, *file))
            if count != task.file_count:
                raise _changed(task)
            making = replace(task.making, tmp_dir=self._tmp_dir)
            row = run_task(replace(task, sources=(root,), making=making))
            if row.made is False:
                raise _changed(task)
            if row.made is None:
                _refuse_other(task, root)
        yield 0, row


def _changed(task: PackTask) -> PackError:
    return PackError(
        f"{task.target}: the elements of WriteToPack were others the second time; keep them, with "
        "beam.Reshuffle() before it"
    )


def _stage(root: str, path: str, data: bytes) -> bool:
    """Write a file as the plan has it; return whether it is a new one."""
    place = os.path.join(root, path)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    is_new = not os.path.lexists(place)
    with open(place, "wb") as file:
        file.write(data)
    os.utime(place, ns=(0, 0))
    return is_new


def _refuse_other(task: PackTask, root: str) -> None:
    """Raise PackError if an existing shard has other contents than the files in `root`."""
    with PackTree(task.target, allow_missing=True) as tree:
        found = next((one for one in compare(tree, root) if one.reason), None)
    if found is not None:
        raise PackError(
            f"{task.target}: exists, and its {found.path} is another ({found.reason}); remove "
            "the set, or write elsewhere"
        )


def _committed(rows: tuple[int, Iterable[Row]], plan: bytes) -> SetSummary:
    with tempfile.NamedTemporaryFile(prefix="ffrfs-beam-") as file:
        file.write(plan)
        file.flush()
        with Plan(file.name) as opened:
            return commit(opened, rows[1])
