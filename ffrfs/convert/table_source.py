"""Tables as sources: an Example for each row.

Integers and booleans become int64 lists, floats float lists, strings and bytes bytes lists; null
is a feature that the Example lacks. Doubles are rounded to float32, with a warning, or refused.
Other types are errors that name the column. A row with a list of lists, or any row of a table with
the mark, is a SequenceExample.

pyarrow, which is imported on first use, does the reading. Not here: values (column_reader.py),
Parquet (parquet.py), CSV and Arrow (other_tables.py). Concurrency: one thread at a time.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any, BinaryIO, ClassVar

from ffrfs.convert.column_reader import ColumnReader, Float64, row_message
from ffrfs.convert.kind import files_named
from ffrfs.convert.source import Record, RecordSource, size_of
from ffrfs.errors import FormatError, PackError, PackWarning, warn
from ffrfs.printable import quoted

# The metadata of a table whose rows are SequenceExamples even without feature lists.
MARK = {b"ffrfs": b"SequenceExample"}


def import_pyarrow() -> ModuleType:
    """Return the module. Raises PackError if it is not installed."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise PackError(
            "Parquet, CSV and Arrow need the package pyarrow; to install it: "
            "pip install 'ffrfs[parquet]'"
        ) from None
    module: ModuleType = pyarrow
    return module


class TableSource(RecordSource):
    """The rows of a file, or of a directory of files in the order of their names.

    A file that is damaged, or has a column of a type that no Example has, ends the reading: rows
    have no checksums, so none is skipped.
    """

    KIND: ClassVar[str]
    EXTENSIONS: ClassVar[tuple[str, ...]]

    def __init__(self, path: str, float64: Float64 = "cast") -> None:
        super().__init__(path)
        self._pyarrow = import_pyarrow()
        self._files = files_named(path, self.EXTENSIONS)
        self._float64 = float64
        self._is_noted = False  # that doubles are rounded
        self._last = path, 0  # the file and the row of the record that was yielded last
        self._part = ""  # the part of the file: "row group 3: "
        self.size_bytes = sum(map(size_of, self._files))

    def records(self) -> Iterator[Record]:
        for path in self._files:
            # A file object of Python, so that an OSError is not taken for damage.
            with open(path, "rb") as file, self._naming(path):
                self._part = ""
                for number, record in enumerate(self._records(path, file)):
                    self._last = path, number
                    yield record

    def place(self) -> str:
        path, number = self._last
        return f"{path}: row {number}"

    def _records(self, path: str, file: BinaryIO) -> Iterator[Record]:
        raise NotImplementedError

    def _parts(self, name: str, parts: Iterable[Any]) -> Iterator[Any]:
        """Yield the parts of a file, which errors name by their numbers."""
        rest = iter(parts)
        for number in itertools.count():
            self._part = f"{name} {number}: "
            if (part := next(rest, None)) is None:
                return
            yield part

    def _rows(self, path: str, schema: Any) -> Rows:  # noqa: ANN401 - pyarrow is untyped
        rows = Rows(self._pyarrow, path, schema, self._float64)
        if rows.rounded and not self._is_noted:
            self._is_noted = True
            names = ", ".join(map(quoted, rows.rounded))
            warn(
                PackWarning(f"{path}: double is rounded to float32, as Examples have it: {names}"),
                stacklevel=2,
            )
        return rows

    @contextlib.contextmanager
    def _naming(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, PackError):
                raise
            if error.errno is not None:
                raise OSError(error.errno, error.strerror, path) from None
            raise self._damage(path, error) from None
        except FormatError:
            raise
        except (
            self._pyarrow.ArrowException,
            MemoryError,  # for a size that no memory has
            ValueError,
            OverflowError,
        ) as error:
            raise self._damage(path, error) from None

    def _damage(self, path: str, error: Exception) -> FormatError:
        text = self._part + (" ".join(str(error).split()) or "a size that no memory has")
        article = "an" if self.KIND[0] == "A" else "a"
        return FormatError.at(path, f"not {article} {self.KIND} file, or damaged ({text})")


class Rows:
    """Converts the rows of a table. `rounded`: its columns of doubles."""

    def __init__(
        self,
        pyarrow: ModuleType,
        path: str,
        schema: Any,  # noqa: ANN401
        float64: Float64,
    ) -> None:
        if len(set(schema.names)) < len(schema.names):
            raise FormatError.at(path, "two columns have the same name")
        self._readers = [ColumnReader(pyarrow, path, each, float64) for each in schema]
        self.rounded = [reader.name for reader in self._readers if reader.is_rounded]
        self._is_marked = dict(schema.metadata or {}).items() >= MARK.items()
        self._path = path
        self._count = 0  # of rows before the batch

    def records(self, batch: Any) -> Iterator[Record]:  # noqa: ANN401
        """Yield the messages of the next rows. Raises FormatError for one that no Example has."""
        try:
            given = [
                reader.features(column)
                for reader, column in zip(self._readers, batch.columns, strict=True)
            ]
        except FormatError as error:
            if batch.num_rows == 1:
                reason = f"row {self._count}: {error.reason}"
                raise FormatError.at(self._path, reason, self._count) from None
            for row in range(batch.num_rows):  # finds the row, and its number
                yield from self.records(batch.slice(row, 1))
            return
        self._count += batch.num_rows
        for row in range(batch.num_rows):
            features = {
                reader.name: feature
                for reader, found in zip(self._readers, given, strict=True)
                if (feature := found[row]) is not None
            }
            yield row_message(features, self._is_marked).SerializeToString(deterministic=True)
