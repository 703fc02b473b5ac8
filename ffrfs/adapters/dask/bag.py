"""from_packs: files of packs as the items of a dask.bag.Bag.

Not here: cutting packs into ranges and reading one (ffrfs.folder).
Concurrency: functions without state. A task holds names and numbers only, and opens its file
in the worker that runs it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from dask.bag import Bag
from dask.base import tokenize
from dask.utils import parse_bytes

from ffrfs.folder.range_reader import Batch, OnError, read_range
from ffrfs.folder.ranges import RangeCutter, RecordRange, check_on_error
from ffrfs.folder.tree import PathType

_PARTITION_SIZE = "64MiB"


def from_packs(
    packs: PathType | Sequence[PathType],
    *,
    npartitions: int | None = None,
    partition_size: int | str | None = None,
    on_error: OnError = "raise",
) -> Bag:
    """Return the files of `packs` as a bag of tuples (path, bytes).

    `packs`: a pack, a set (a directory of packs), or a list of either, which are one tree; each
    may be a URL. Links are no items. A file or a directory of plain FFRecord or of TFRecord
    gives tuples (number, bytes), numbered over all files, as FileReader and TFRecordReader
    count. Workers need the same paths, or the same access to URLs.

    A partition is a range of one pack, in the order of its records. `npartitions`: about how
    many there are, and at least one for each pack. `partition_size` instead: the most bytes of
    one, approximately, as a number or as "64MiB", the default; a larger file exceeds it.
    The same packs, cut in the same way, give the same keys.

    Every byte is verified before it is an item. Damage raises ChecksumError, with `file` and
    `record`, from compute(); with `on_error="skip"` a damaged file is left out with a
    PackWarning in the worker. A function of the error and the path or number, which is called in
    the worker, returns the bytes that take its place, or None to leave it out.

    Raises FormatError, OSError here for packs that cannot be opened or do not fit together,
    OptionError for another `on_error`, ValueError for both sizes at once.
    """
    check_on_error(on_error)
    if npartitions is not None and partition_size is not None:
        raise ValueError("needs npartitions or partition_size, not both")
    cutter = RangeCutter(packs)
    if npartitions is not None:
        parts = cutter.cut(npartitions)
    else:
        parts = cutter.cut_by_size(
            parse_bytes(_PARTITION_SIZE if partition_size is None else partition_size)
        )
    name = f"from-packs-{tokenize(parts, on_error)}"
    # Bags fuse this list() with operations on its items that follow at once: a task that maps
    # and sums then holds a batch, not a partition.
    graph: dict[Any, Any] = {
        (name, number): (list, (functools.partial(_items, part, on_error),))
        for number, part in enumerate(parts)
    }
    return Bag(graph, name, len(parts))


def _items(part: RecordRange, on_error: OnError) -> Iterator[tuple[str | int, bytes]]:
    # map() holds no batch while the next one is read.
    return itertools.chain.from_iterable(map(_items_of, read_range(part, on_error)))


def _items_of(batch: Batch) -> Iterator[tuple[str | int, bytes]]:
    return zip(batch.names, map(bytes, batch.contents), strict=True)
