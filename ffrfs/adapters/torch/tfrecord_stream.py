"""The items of TFRecord files as a stream: for TFRecordDataset with a queue or compression.

Not here: items by number (dataset.py), dividing among workers (record_stream.py), the
contents of an item (tfrecord_item.py). Concurrency: functions without state.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from ffrfs.adapters.torch.tfrecord_item import Description, item_parser
from ffrfs.tfrecord.dataset.record_dataset import RecordDataset
from ffrfs.tfrecord.shards import PathType
from ffrfs.tfrecord.sidecar import check_index


def item_dataset(  # noqa: PLR0913, PLR0917 - the arguments of the package
    path: PathType | Sequence[PathType],
    index_path: PathType | None,
    description: Description | None,
    shuffle_queue_size: int | None,
    transform: Callable[[Any], Any] | None,
    sequence_description: Description | None,
    compression_type: str | None,
) -> RecordDataset:
    """Return the data set of these items. The arguments are TFRecordDataset's."""
    kind = compression_type or ""
    if kind.upper() not in ("", "GZIP", "ZLIB"):
        raise ValueError(f'compression_type is None, "gzip" or "zlib", not {compression_type!r}')
    if index_path is not None:
        if not isinstance(path, str | os.PathLike):
            raise ValueError("an index_path is for one file, not for a list of files")
        check_index(index_path, None if kind else path)
    dataset = RecordDataset(path, kind.upper())
    if shuffle_queue_size:
        dataset = dataset.shuffle(shuffle_queue_size)
    dataset = dataset.map(item_parser(description, sequence_description))
    return dataset if transform is None else dataset.map(transform)
