"""Tables that are read and not written: CSV, and Arrow's files and streams (Feather).

Not here: Parquet (parquet.py), columns (table_source.py). Concurrency: one thread at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, BinaryIO, Self

import numpy as np

from ffrfs.convert.example_json import to_int
from ffrfs.convert.source import Record
from ffrfs.convert.table_source import Rows, TableSource
from ffrfs.errors import FormatError
from ffrfs.printable import quoted

# Bytes of a CSV file from which the types of its columns are found; no row is longer.
_BLOCK_SIZE = 8 << 20
_ROWS_AT_ONCE = 128  # as messages in memory
# How long to wait for a last read by pyarrow's thread, which comes at once unless it is far ahead.
_LAST_READ_S = 0.1
_FILE_MAGIC = b"ARROW1"


class CsvSource(TableSource):
    """Files with a header. A value that is no number, true or false is text, byte for byte."""

    KIND = "CSV"
    EXTENSIONS = (".csv", ".csv.gz")

    def _records(self, path: str, file: BinaryIO) -> Iterator[Record]:
        with open(path, "rb") as again, _LineBreaks(self._plain(path, again)) as blocks:
            found = self._open(blocks, {}).schema
        is_number = self._pyarrow.types.is_primitive
        is_time = self._pyarrow.types.is_temporal
        texts = {
            field.name: self._pyarrow.binary()
            for field in found
            if not is_number(field.type) or is_time(field.type)
        }
        with _LineBreaks(self._plain(path, file)) as blocks:
            reader = self._open(blocks, texts)
            rows = self._rows(path, reader.schema)
            names = set(rows.rounded)
            for batch in reader:
                large = {name for name in names if _has_large(batch.column(name))}
                for name in large:
                    self._check_whole_numbers(path, name)
                names -= large
                yield from _in_slices(rows, batch)

    def _check_whole_numbers(self, path: str, name: str) -> None:
        """Raise FormatError if pyarrow takes a column for doubles that has too large integers."""
        compute = self._pyarrow.compute
        count = 0  # of rows before the batch
        with open(path, "rb") as file, _LineBreaks(self._plain(path, file)) as blocks:
            for batch in self._open(blocks, {name: self._pyarrow.binary()}, [name]):
                texts = batch.column(0)
                is_whole = compute.match_substring_regex(texts, r"^\s*[+-]?\d{19,}\s*$")
                for at in compute.indices_nonzero(is_whole).to_pylist():
                    try:
                        to_int(int(texts[at].as_py()))
                    except ValueError:
                        row, what = count + at, "an integer that does not fit into an int64"
                        reason = f"row {row}: column {quoted(name)} has {what}"
                        raise FormatError.at(path, reason, row) from None
                count += batch.num_rows

    def _plain(self, path: str, file: BinaryIO) -> Any:  # noqa: ANN401
        is_gzip = path.endswith(".gz")
        return self._pyarrow.CompressedInputStream(file, "gzip") if is_gzip else file

    def _open(
        self, blocks: _LineBreaks, types: dict[str, Any], names: list[str] | None = None
    ) -> Any:  # noqa: ANN401
        csv = self._pyarrow.csv
        return csv.open_csv(
            blocks,
            csv.ReadOptions(use_threads=False, block_size=_BLOCK_SIZE),
            csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(column_types=types, include_columns=names),
        )

    def _damage(self, path: str, error: Exception) -> FormatError:
        if "straddling object" in str(error):  # pyarrow's words for a row that ends in no block
            error = ValueError(f"a row of over {_BLOCK_SIZE:,} bytes, or a quote is not closed")
        return super()._damage(path, error)


class _LineBreaks:
    """A file of which no block ends between the bytes of a CR LF: in a text, pyarrow loses that LF.

    A CR at the end of a block is held back until the next one is read. A thread of pyarrow reads
    ahead, also after an error; Python would abort or hang if it ended meanwhile, so the exit waits.
    """

    closed = False  # pyarrow asks

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._held = b""
        self._is_over = False
        self._has_ended = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._has_ended.wait(_LAST_READ_S)

    def read(self, size: int) -> bytes:
        block = b""
        try:
            if not self._is_over:
                block = self._held + self._file.read(size - len(self._held))
        finally:
            if not block:
                self._has_ended.set()
        self._held = b""
        if len(block) > 1 and block.endswith(b"\r"):
            block, self._held = block[:-1], b"\r"
        return block


class ArrowSource(TableSource):
    """Files of record batches, each of which is checked before it is used."""

    KIND = "Arrow"
    EXTENSIONS = (".arrow", ".feather")

    def _records(self, path: str, file: BinaryIO) -> Iterator[Record]:
        ipc = self._pyarrow.ipc
        options = ipc.IpcReadOptions(use_threads=False)
        is_file = file.read(len(_FILE_MAGIC)) == _FILE_MAGIC
        file.seek(0)
        reader = (ipc.open_file if is_file else ipc.open_stream)(file, options=options)
        rows = self._rows(path, reader.schema)
        batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
        for batch in self._parts("record batch", batches):
            batch.validate(full=True)
            if batch.num_rows and all(map(self._pyarrow.types.is_null, batch.schema.types)):
                # They take no space, so a small file may have any number.
                raise FormatError.at(path, f"has {batch.num_rows:,} rows without values")
            yield from _in_slices(rows, batch)


def _has_large(numbers: Any) -> bool:  # noqa: ANN401
    return bool((np.abs(numbers.to_numpy(zero_copy_only=False)) >= 1 << 63).any())


def _in_slices(rows: Rows, batch: Any) -> Iterator[Record]:  # noqa: ANN401
    for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
        yield from rows.records(batch.slice(start, _ROWS_AT_ONCE))
