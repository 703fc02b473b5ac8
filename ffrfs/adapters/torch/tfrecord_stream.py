"""The items of TFRecord files as a stream: for TFRecordDataset with a queue or compression.

Not here: items by number (dataset.py), dividing among workers (record_stream.py), the
contents of an item (tfrecord_item.py). Concurrency: functions without state.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ffrfs.adapters.bad_samples import Bad, BadSamples
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
    bad: BadSamples,
) -> RecordDataset:
    """Return the data set of these items. The arguments are TFRecordDataset's.

    Until the last stages a record that cannot be read, or is not an Example, is a Bad, so that the
    thread that iterates notes only samples which the loop gets.
    """
    kind = compression_type or ""
    if kind.upper() not in ("", "GZIP", "ZLIB"):
        raise ValueError(f'compression_type is None, "gzip" or "zlib", not {compression_type!r}')
    if index_path is not None:
        if not isinstance(path, str | os.PathLike):
            raise ValueError("an index_path is for one file, not for a list of files")
        check_index(index_path, None if kind else path)
    is_kept = bad.on_error != "raise"
    dataset = RecordDataset(path, kind.upper(), on_error=Bad if is_kept else "raise")
    if shuffle_queue_size:
        dataset = dataset.shuffle(shuffle_queue_size)
    parse = item_parser(description, sequence_description)
    if is_kept:
        dataset = dataset.map(partial(_unless_bad, parse), on_error=Bad)
        return dataset.map(partial(_settled, bad, transform)).filter(_is_good)
    dataset = dataset.map(parse)
    return dataset if transform is None else dataset.map(transform)


def _unless_bad(parse: Callable[[Any], Any], record: Any) -> Any:  # noqa: ANN401 - an item
    return record if isinstance(record, Bad) else parse(record)


def _settled(bad: BadSamples, transform: Callable[[Any], Any] | None, item: Any) -> Any:  # noqa: ANN401
    """Return the sample, or what takes its place; a Bad if it is left out."""
    if not isinstance(item, Bad):
        return item if transform is None else transform(item)
    number = getattr(item.error, "record", None)
    return next(iter(bad.settle([number], [item], lambda number: number)), item)


def _is_good(sample: object) -> bool:
    return not isinstance(sample, Bad)
