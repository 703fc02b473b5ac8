"""Source: the first stage of a RecordDataset, which reads the files.

Each open file has a thread that reads one batch ahead (read_ahead.py): at most 8 MiB, or
one record, in use and as much again ahead. Concurrency: that of a Stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from ffrfs.tfrecord.dataset.read_ahead import ReadAhead
from ffrfs.tfrecord.iterator import OnError, RecordIterator, tf_record_iterator
from ffrfs.tfrecord.options import OptionsLike

# File and number of the record that an element comes from; for a batch, of its first record.
Origin: TypeAlias = tuple[int, int]
Element: TypeAlias = tuple[Any, Origin]


@dataclass(frozen=True)
class Reading:
    """The files, and how they are read."""

    files: tuple[str, ...]
    options: OptionsLike
    check_data: bool
    on_error: OnError
    cycle_length: int = 1
    block_length: int = 1


class _Batches:
    """The records of a file as lists, each with the number of its first record in the file.

    The first `skip` records are left out. The first next() opens the file.
    """

    def __init__(self, reading: Reading, path: str, skip: int) -> None:
        self._reading, self._path, self._skip = reading, path, skip
        self._records: RecordIterator | None = None

    def __next__(self) -> tuple[int, list[bytes]]:
        if self._records is None:
            how = self._reading
            self._records = tf_record_iterator(
                self._path, how.options, check_data=how.check_data, on_error=how.on_error
            )
        while True:
            batch = self._records.next_batch()
            if self._skip < len(batch):
                skip, self._skip = self._skip, 0
                return self._records.first + skip, batch[skip:]
            self._skip -= len(batch)

    def close(self) -> None:
        if self._records is not None:
            self._records.close()


class _File:
    """An open file, and the position in it."""

    def __init__(self, reading: Reading, file: int, given: int = 0) -> None:
        self.file, self.given = file, given
        self._batches = ReadAhead(_Batches(reading, reading.files[file], given), 1)
        self._batch: list[bytes] = []  # records in reverse order
        self._number = 0  # of the next one

    def __next__(self) -> Element:
        if not self._batch:
            self._number, self._batch = next(self._batches)
            self._batch.reverse()
        self.given += 1
        self._number += 1
        return self._batch.pop(), (self.file, self._number - 1)

    def close(self) -> None:
        self._batches.close()


class Source:
    """The records of all files; of `cycle_length` files at a time, `block_length` of each.

    The next file replaces a file that ends. The order is that of tf.data's interleave.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._open: list[_File | None] | None = None  # the first next() opens them
        self._slot = 0  # index of the file whose turn it is
        self._in_block = 0  # records given of its block
        self._next_file = 0

    def __next__(self) -> Element:
        if self._open is None:
            self._open = []
            for _ in range(min(self._reading.cycle_length, len(self._reading.files))):
                self._open.append(self._next())
        while any(self._open):
            file = self._open[self._slot]
            if file is None:
                self._advance()
                continue
            try:
                element = next(file)
            except StopIteration:
                file.close()
                self._open[self._slot] = self._next()
                self._advance()
                continue
            self._in_block += 1
            if self._in_block == self._reading.block_length:
                self._advance()
            return element
        raise StopIteration

    def state(self) -> dict[str, Any]:
        slots = None
        if self._open is not None:
            slots = [(file.file, file.given) if file else None for file in self._open]
        return {
            "slots": slots,
            "slot": self._slot,
            "in_block": self._in_block,
            "next_file": self._next_file,
        }

    def load(self, state: dict[str, Any]) -> None:
        if state["slots"] is not None:
            self._open = [_File(self._reading, *slot) if slot else None for slot in state["slots"]]
        self._slot, self._in_block = state["slot"], state["in_block"]
        self._next_file = state["next_file"]

    def close(self) -> None:
        for file in self._open or ():
            if file is not None:
                file.close()

    def _next(self) -> _File | None:
        if self._next_file == len(self._reading.files):
            return None
        self._next_file += 1
        return _File(self._reading, self._next_file - 1)

    def _advance(self) -> None:
        self._in_block = 0
        self._slot = (self._slot + 1) % len(self._open or (None,))
