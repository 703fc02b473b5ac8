"""read_packs and PackDatasource: files of packs as rows of a ray.data.Dataset.

Not here: cutting packs into ranges and reading one (ffrfs.folder).
Concurrency: a datasource is immutable. A read task holds names and numbers only, and opens
its file in the worker that runs it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow
import ray.data
from ray.data.block import BlockMetadata
from ray.data.context import DataContext
from ray.data.datasource import Datasource, ReadTask

from ffrfs.errors import FormatError
from ffrfs.folder.range_reader import Batch, OnError, read_range
from ffrfs.folder.ranges import Kind, RangeCutter, RecordRange, check_on_error
from ffrfs.folder.tree import PathType
from ffrfs.printable import shown_name


def read_packs(
    packs: PathType | Sequence[PathType],
    *,
    include_paths: bool = True,
    on_error: OnError = "raise",
    override_num_blocks: int | None = None,
    concurrency: int | None = None,
    **ray_options: Any,  # noqa: ANN401 - the parameters of read_datasource(), which grow
) -> ray.data.Dataset:
    """Return the files of `packs` as a dataset: a row {"path": str, "data": bytes} for each.

    `packs`: a pack, a set (a directory of packs), or a list of either, which are one tree; each
    may be a URL. Links are no rows. A file or a directory of plain FFRecord or of TFRecord
    gives rows {"record": int, "data": bytes}, numbered over all files, as FileReader and
    TFRecordReader count.

    `include_paths=False`: leave out the column "path" or "record". `override_num_blocks`,
    `concurrency` and `ray_options` (num_cpus, memory, resources, …) are those of
    ray.data.read_datasource(). Workers need the same paths, or the same access to URLs.

    Each task reads a range of one pack, in the order of its records, in blocks of at most
    32 MiB; a larger file is a block alone. Every byte is verified first. Damage fails the task:
    Ray raises an error that is also a ChecksumError, whose `cause` has `file` and `record`. With
    `on_error="skip"` a damaged file is left out with a PackWarning in the worker's log; a function
    of the error and the path or number, which is called in the worker, returns the bytes that
    take its place, or None to leave it out.

    Raises FormatError, OSError here for packs that cannot be opened or do not fit together,
    OptionError for another `on_error`.
    """
    dataset: ray.data.Dataset = ray.data.read_datasource(
        PackDatasource(packs, include_paths=include_paths, on_error=on_error),
        override_num_blocks=override_num_blocks,
        concurrency=concurrency,
        **ray_options,
    )
    return dataset


class PackDatasource(Datasource):
    """The source of read_packs(), for ray.data.read_datasource(); it takes the same parameters."""

    def __init__(
        self,
        packs: PathType | Sequence[PathType],
        *,
        include_paths: bool = True,
        on_error: OnError = "raise",
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        check_on_error(on_error)
        self._cutter = RangeCutter(packs)
        self._include_paths = include_paths
        self._on_error: OnError = on_error

    def get_name(self) -> str:
        """Return Ray's name for its read tasks."""
        return "Packs"

    def estimate_inmemory_data_size(self) -> int:
        """Return the size of all rows in bytes."""
        return self._cutter.weight

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Return about `parallelism` tasks, each for an equal range of the records of one pack."""
        name = _name_column(self._cutter.kind) if self._include_paths else None
        return [
            ReadTask(
                functools.partial(_read_blocks, part, name, self._on_error),
                BlockMetadata(
                    num_rows=part.row_count if self._on_error == "raise" else None,
                    size_bytes=part.byte_count,
                    exec_stats=None,
                    input_files=(shown_name(part.file.path),),
                ),
                schema=_schema(name),
                per_task_row_limit=per_task_row_limit,
            )
            for part in self._cutter.cut(parallelism)
        ]


def _name_column(kind: Kind) -> str:
    return "path" if kind == "pack" else "record"


def _schema(name: str | None) -> pyarrow.Schema:
    # A file may exceed 2 GiB, the limit for all values of a plain binary column together.
    data = pyarrow.field("data", pyarrow.large_binary())
    if name is None:
        return pyarrow.schema([data])
    kind = pyarrow.string() if name == "path" else pyarrow.int64()
    return pyarrow.schema([pyarrow.field(name, kind), data])


def _read_blocks(part: RecordRange, name: str | None, on_error: OnError) -> Iterator[pyarrow.Table]:
    """Yield the tables of a task, at least one; this runs in a worker."""
    is_empty = True
    tables = map(functools.partial(_table, name, part.file.path), read_range(part, on_error))
    for table in tables:
        yield table
        is_empty = False
        del table  # so that it is freed before the next one is made
    if is_empty:
        yield _schema(name).empty_table()


def _table(name: str | None, file: str, batch: Batch) -> pyarrow.Table:
    schema = _schema(name)
    columns = [_column(batch)]
    if name is not None:
        try:
            columns.insert(0, pyarrow.array(batch.names, schema.field(name).type))
        except UnicodeEncodeError as error:
            raise FormatError.at(
                file,
                f"{error.object!a} is not UTF-8, as a table's text must be: include_paths=False "
                "leaves the paths out",
            ) from None
    return pyarrow.Table.from_arrays(columns, schema=schema)


def _column(batch: Batch) -> pyarrow.Array:
    """Return the contents as a column, copied once, back to back."""
    offsets = np.zeros(len(batch.contents) + 1, dtype=np.int64)
    np.cumsum([len(content) for content in batch.contents], out=offsets[1:])
    data = b"".join(batch.contents)  # type: ignore[arg-type] # an array is a buffer, too
    buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(data)]
    return pyarrow.Array.from_buffers(pyarrow.large_binary(), len(batch.contents), buffers)
