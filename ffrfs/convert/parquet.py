"""Parquet: a table with a row per Example, and the columns of columns.py.

Tables are written in groups of rows, each page with a checksum. Tables of other programs can be
read, too (table_source.py). Not here: values (column_reader.py). Concurrency: one thread at a
time.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO

from ffrfs.convert.columns import Column, Columns, Row
from ffrfs.convert.source import Record
from ffrfs.convert.table_source import MARK, TableSource, import_pyarrow
from ffrfs.errors import FormatError, PackError, naming
from ffrfs.files.replacing import new_file

if TYPE_CHECKING:
    from typing_extensions import Buffer

# The size of a group of rows, which is held in memory to be written. Readers take up to 1 GB.
_GROUP_SIZE = 64 << 20
_GROUP_ROWS = 1 << 16
# The approximate size of a batch to read; few rows, as a value may be stored once for all rows, and
# fewer if the dictionary is large, as each row may have its largest value.
_BATCH_SIZE = 8 << 20
_BATCH_ROWS = 128
_BATCH_OF_DICTIONARY_SIZE = 128 << 20
# Repeated numbers take almost no space in the file: this limits their average per row.
_NUMBERS_MAX = 1 << 27
_NUMBER_SIZE = 8  # in memory
_BUFFER_SIZE = 1 << 20
# A page begins with its type and its size, a 32 bit number of seven bits a byte.
_PAGE_START = re.compile(rb"\x15(.)\x15([\x80-\xff]{0,4}[\x00-\x7f])", re.DOTALL)
_PAGE_START_SIZE = 8
_DICTIONARY_PAGE = b"\x04"


def write_parquet(
    path: str, records: Iterable[Record], columns: Columns, *, force: bool = False
) -> None:
    """Write the table. Raises PackError for a record that is not covered by the columns."""
    pyarrow = import_pyarrow()
    schema = _schema(pyarrow, columns)
    with (
        new_file(path, force=force) as staged,
        # A file object of Python, so that errors are OSErrors.
        _WholeWrites(os.dup(staged.fd), "wb") as file,
    ):
        writer = pyarrow.parquet.ParquetWriter(file, schema, write_page_checksum=True)
        for rows in _groups(records, columns):
            with naming(staged.path), _refusing(pyarrow, path):
                table = pyarrow.Table.from_pylist(rows, schema)
                rows.clear()
                writer.write_table(table)
                del table  # free its memory before the next group is read
        with naming(staged.path):
            writer.close()


class _WholeWrites(io.FileIO):
    """Writes all that it is given: pyarrow does not look at how much a write took."""

    def write(self, data: Buffer, /) -> int:
        with memoryview(data).cast("B") as view:
            done = 0
            while done < len(view):
                done += super().write(view[done:])
            return done


def _schema(pyarrow: ModuleType, columns: Columns) -> Any:  # noqa: ANN401 - pyarrow is untyped
    types = {"float": pyarrow.float32(), "bytes": pyarrow.binary()}

    def type_of(column: Column) -> Any:  # noqa: ANN401
        # A list needs a type even if no record has a list: pyarrow does not read others.
        leaf = types.get(column.kind or "", pyarrow.int64())
        if column.is_single:
            return leaf
        return pyarrow.list_(pyarrow.list_(leaf)) if column.is_steps else pyarrow.list_(leaf)

    fields = [(name, type_of(column)) for name, column in sorted(columns.by_name.items())]
    return pyarrow.schema(fields, metadata=MARK if columns.has_empty_lists else None)


def _groups(records: Iterable[Record], columns: Columns) -> Iterator[list[Row]]:
    rows: list[Row] = []
    size = 0
    for record in records:
        # Before the group grows too large: it may hold one large record, but not two.
        if rows and (size + len(record) > _GROUP_SIZE or len(rows) == _GROUP_ROWS):
            yield rows
            rows, size = [], 0
        rows.append(columns.row(record))
        size += len(record)
    if rows:
        yield rows


@contextlib.contextmanager
def _refusing(pyarrow: ModuleType, path: str) -> Iterator[None]:
    try:
        yield
    except pyarrow.ArrowException as error:
        raise PackError(f"{path}: Parquet does not hold these records ({error})") from None


class ParquetSource(TableSource):
    """The rows of a Parquet file, or of a directory of them in the order of their names."""

    KIND = "Parquet"
    EXTENSIONS = (".parquet",)

    def _records(self, path: str, file: BinaryIO) -> Iterator[Record]:
        table = self._pyarrow.parquet.ParquetFile(
            file,
            buffer_size=_BUFFER_SIZE,
            pre_buffer=False,
            page_checksum_verification=True,
        )
        rows = self._rows(path, table.schema_arrow)
        if not table.schema_arrow.names and table.metadata.num_rows:
            raise FormatError.at(path, "has rows, but no columns")
        for number in self._parts("row group", range(table.num_row_groups)):
            missing = table.metadata.row_group(number).num_rows
            count = _rows_at_once(path, file, table, number)
            for batch in table.iter_batches(count, row_groups=[number], use_threads=False):
                missing -= batch.num_rows
                yield from rows.records(batch)
            if missing:
                raise FormatError.at(path, f"damaged: row group {number} lacks {missing:,} rows")


def _rows_at_once(path: str, file: BinaryIO, table: Any, number: int) -> int:  # noqa: ANN401
    """Return how many rows of the row group are small in memory."""
    # This opens the columns, and reads nothing: it raises where they are damaged. column() would
    # end the process there.
    for _ in table.reader.iter_batches(0, [number], use_threads=False):
        break
    group = table.metadata.row_group(number)
    row_count = max(1, group.num_rows)
    columns = [group.column(i) for i in range(group.num_columns)]
    values = max((column.num_values for column in columns), default=0)
    if values // row_count > _NUMBERS_MAX:
        raise FormatError.at(path, f"row group {number} has rows too large for an Example")
    widths: list[int] = [table.schema.column(i).length for i in range(group.num_columns)]
    size = max(group.total_byte_size, values * max(_NUMBER_SIZE, *widths))
    rows: int = _BATCH_SIZE * row_count // max(1, size)
    largest = max((_dictionary_size(file, column) for column in columns), default=0)
    return max(1, min(_BATCH_ROWS, rows, _BATCH_OF_DICTIONARY_SIZE // max(1, largest)))


def _dictionary_size(file: BinaryIO, column: Any) -> int:  # noqa: ANN401
    """Return the size of a column's dictionary in memory; if it is unknown, the largest."""
    start = column.dictionary_page_offset or column.data_page_offset
    found = _PAGE_START.match(os.pread(file.fileno(), _PAGE_START_SIZE, max(0, start)))
    if found is None:
        return _BATCH_OF_DICTIONARY_SIZE
    if found[1] != _DICTIONARY_PAGE:
        return 0
    size: int = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(found[2]))
    return size // 2
