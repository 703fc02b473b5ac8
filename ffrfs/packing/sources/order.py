"""Numbers the records of files: by path, by size, by a file of paths, or by a list of paths.

Not here: the orders themselves (native core).
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO

from ffrfs._native import EntryList
from ffrfs.errors import PackError
from ffrfs.printable import quoted

# "path", "size", or the file that has one path a line.
Order = str | os.PathLike[str]

# The numbers of so many files are Python objects at a time.
_BATCH_COUNT = 4096

BY_PATH = "path"
BY_SIZE = "size"


def batches(listed: EntryList, first: int = 0, count: int | None = None) -> Iterator[list[int]]:
    """Yield the files that have `count` records from `first` on (None: all), so many at a time."""
    end = first + (listed.record_count - first if count is None else count)
    for start in range(first, end, _BATCH_COUNT):
        yield listed.files(start, min(_BATCH_COUNT, end - start))


def number(listed: EntryList, order: Order) -> None:
    """Number the files. Raises PackError, naming the line, for a path that does not exist."""
    if order == BY_PATH:
        listed.number("path")
    elif order == BY_SIZE:
        listed.number("size")
    else:
        listed.number_by(_files_of(listed, os.fspath(order)))


def number_by_keys(listed: EntryList, keys: array[int]) -> None:
    """Number the files by `keys`, a number for each of them; those of one key by path."""
    import numpy as np  # here, because other orders do not need it

    listed.number("path")
    files = np.fromiter(chain.from_iterable(batches(listed)), np.uint32, listed.record_count)
    order = np.argsort(np.array(keys, np.uint64)[files], kind="stable")
    # An array, because a list would hold a Python object for each number.
    listed.number_by(array("I", files[order].tobytes()))


def _files_of(listed: EntryList, order_file: str) -> list[int]:
    files: dict[int, None] = {}  # in the order of their lines
    with _opened(order_file) as lines:
        for number, line in enumerate(lines, 1):
            path = line.rstrip(b"\r\n").removeprefix(b"./")
            if not path:
                continue
            where = f"{order_file}: line {number}: {quoted(os.fsdecode(path))}"
            file = listed.find(path)
            if file is None:
                raise PackError(f"{where} is not a file to be packed; remove the line")
            if file in files:
                raise PackError(f"{where} is listed twice; remove one of the lines")
            files[file] = None
    return list(files)


def _opened(order_file: str) -> BinaryIO:
    try:
        return open(order_file, "rb")
    except FileNotFoundError:
        raise PackError(
            f"--order {order_file}: must be path, size, or a file with one path per line; there "
            f"is no file {order_file}"
        ) from None
