"""RecordReader: the base of readers of records by number: numbers, slices, checks.

Not here: opening the files and reading (the native core, which a reader has as `_records`).
Concurrency: that of the reader.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Sequence
from typing import Generic, Protocol, SupportsIndex, TypeVar, overload

from ffrfs.errors import ChecksumError
from ffrfs.files.closing import Closing

# validate() handles Ctrl-C after so many records.
_VALIDATE_STEP = 65536

_Record = TypeVar("_Record")


class _Records(Protocol[_Record]):
    def read(self, indices: Sequence[SupportsIndex]) -> list[_Record]: ...
    def verify(self, first: int, count: int) -> list[tuple[int, Exception]]: ...
    def close(self) -> None: ...


class RecordReader(Closing, Generic[_Record]):
    n: int  # records
    _records: _Records[_Record]

    def __len__(self) -> int:
        return self.n

    def read(self, indices: Sequence[SupportsIndex]) -> list[_Record]:
        """Return one record per index, in that order; duplicates are allowed.

        Raises IndexError for a number below 0 or not below `n`, ChecksumError for a damaged
        record, OSError if the disk fails; then it returns no record.
        """
        try:
            return self._records.read(indices)
        except TypeError:
            raise TypeError(
                "read() takes a list of record numbers; for one record there is read_one(5) or "
                "reader[5]"
            ) from None

    def read_one(self, index: SupportsIndex) -> _Record:
        """Return record `index`, as read() does."""
        return self._records.read([operator.index(index)])[0]

    @overload
    def __getitem__(self, index: SupportsIndex) -> _Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[_Record]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> _Record | list[_Record]:
        """Return a record, counted from the end if the number is negative, or a list."""
        if isinstance(index, slice):
            return self._records.read(range(*index.indices(self.n)))
        return self._records.read([number_of(index, self.n)])[0]

    def validate(self) -> None:
        """Read every record and check it, whatever `check_data` says.

        Raises ChecksumError (with the text of an OSError, if that was the reason) that names
        the first bad record and counts the others.
        """
        bad: list[tuple[int, Exception]] = []
        for first in range(0, self.n, _VALIDATE_STEP):
            bad += self._records.verify(first, min(_VALIDATE_STEP, self.n - first))
        if bad:
            raise ChecksumError.first_of(bad)

    def close(self) -> None:
        """Close the files. Reading afterwards raises ValueError."""
        self._records.close()


def _await_import() -> None:
    """Wait until NumPy is imported, if a thread is at it: its first read imports it.

    The child of a fork() meanwhile would wait for that thread, which it does not have, for ever.
    """
    if "numpy" in sys.modules:
        import numpy  # noqa: F401


os.register_at_fork(before=_await_import)


def number_of(index: SupportsIndex, count: int, what: str = "record") -> int:
    """Return which of `count` things an index means; a negative one counts from the end."""
    number = operator.index(index)
    if not -count <= number < count:
        raise IndexError(f"{what} {number} does not exist: there are {count}")
    return number % count
