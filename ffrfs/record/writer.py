"""FileWriter: writes records into one FFRecord file, which appears whole or not at all.

Not here: the writing itself (the native core), reading (reader.py), several files
(dump.py). Concurrency: several threads may write; they take turns.
"""

from __future__ import annotations

import operator
import os
from typing import TYPE_CHECKING, Self, SupportsIndex

from ffrfs._native import Writer
from ffrfs.errors import RecordCountError
from ffrfs.files.leftovers import remove_leftovers_beside

if TYPE_CHECKING:
    from typing_extensions import Buffer


class FileWriter:
    """Write exactly `n` records to the file `fname`.

    close() gives the file its name: until then, and for good if an exception ends the `with`
    block, if the writer is dropped, or if the process is killed, the old file of that name
    stays unchanged. After an error of the disk (OSError) the writer is closed.
    """

    def __init__(self, fname: str | os.PathLike[str], n: SupportsIndex) -> None:
        self.fname = os.fspath(fname)
        self.n = operator.index(n)
        if self.n < 0:
            raise RecordCountError(f"{self.fname}: cannot hold {self.n} records")
        remove_leftovers_beside(self.fname)
        try:
            self._writer = Writer(os.fsencode(self.fname), self.n)
        except (TypeError, OverflowError):  # beyond 64 bits
            raise RecordCountError(f"{self.fname}: cannot hold {self.n} records") from None
        self._closed = False

    @property
    def count(self) -> int:
        """Number of records written so far."""
        return self._writer.written

    def write_one(self, data: Buffer) -> None:
        """Append one record: the bytes of any contiguous bytes-like object.

        Raises RecordCountError at once if there are `n` already; the writer can still
        be closed then. Raises ValueError if it is closed.
        """
        self._writer.append(data)

    def close(self) -> None:
        """Finish the file: header, sync, name. It may be closed already.

        Raises RecordCountError, and leaves no file, if fewer than `n` were written.
        """
        if not self._closed:
            self._closed = True
            self._writer.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._closed = True
            self._writer.abort()

    def __repr__(self) -> str:
        return f"FileWriter({self.fname!r}, n={self.n}, count={self.count})"
