"""The first rows of a Parquet table. It runs in the sandbox; pyarrow's threads are not used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO

from ffrfs.errors import MissingPackageError
from ffrfs.view.plain import CELL_SIZE, COLUMNS_MAX, CUT, ROWS_MAX


def table(file: BinaryIO) -> dict[str, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        need = "a Parquet table needs the package pyarrow"
        raise MissingPackageError.of(need, "parquet") from None
    with pq.ParquetFile(pa.PythonFile(file, mode="r"), buffer_size=1 << 20) as source:
        metadata, names = source.metadata, source.schema_arrow.names
        batches = source.iter_batches(ROWS_MAX, columns=names[:COLUMNS_MAX], use_threads=False)
        first = next(batches, None)
        columns = [] if first is None else [_texts(column) for column in first.columns]
        is_cut = metadata.num_rows > ROWS_MAX or len(names) > COLUMNS_MAX
        return {
            "facts": [
                ["Rows", f"{metadata.num_rows:,}"],
                ["Columns", f"{len(names):,}"],
                ["Row groups", f"{metadata.num_row_groups:,}"],
                ["Written by", str(metadata.created_by)[:CELL_SIZE]],
            ],
            "note": CUT if is_cut else None,
            "table": {
                "columns": [f"{name}"[:CELL_SIZE] for name in names[:COLUMNS_MAX]],
                "rows": [list(row) for row in zip(*columns, strict=True)],
            },
        }


def _texts(column: Iterable[Any]) -> list[str]:
    return ["" if not value.is_valid else str(value.as_py())[:CELL_SIZE] for value in column]
