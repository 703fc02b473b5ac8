"""MultiTFRecordDataset: several TFRecord files, mixed at random by ratios.

The arguments are those of the PyPI package `tfrecord`. Not here: reading and dividing
(record_stream.py), the contents of an item (tfrecord_item.py). Concurrency: RecordStream's.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Unpack

from torch.utils.data import IterableDataset, get_worker_info

from ffrfs.adapters.bad_samples import BadSamples, OnError
from ffrfs.adapters.torch.record_stream import find_place, find_ranks
from ffrfs.adapters.torch.tfrecord_item import Description
from ffrfs.adapters.torch.tfrecord_stream import item_dataset
from ffrfs.remote.named_store import StoreKeywords, in_store
from ffrfs.tfrecord.dataset.record_dataset import RecordDataset


class MultiTFRecordDataset(IterableDataset[Any]):
    """Items of several files, each drawn from one of them at random.

    `data_pattern` and `index_pattern` (or None) become a file's path by format(name);
    `splits`: name → ratio. `infinite`: a file that ends begins again; otherwise the others
    continue without it. All other arguments are those of TFRecordDataset. `shuffle_queue_size`
    is divided among the files by their ratios. `on_error`: as for a stream of TFRecordDataset.

    Each worker of each rank reads its own records of every file. The order follows torch's
    seed. Raises ValueError for invalid ratios.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the arguments of the package
        self,
        data_pattern: str,
        index_pattern: str | None,
        splits: Mapping[str, float],
        description: Description | None = None,
        shuffle_queue_size: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        sequence_description: Description | None = None,
        compression_type: str | None = None,
        infinite: bool = True,
        *,
        on_error: OnError = "raise",
        **store: Unpack[StoreKeywords],
    ) -> None:
        total = sum(splits.values())
        if not (math.isfinite(total) and total > 0 and all(r >= 0 for r in splits.values())):
            raise ValueError(f"the ratios of splits are numbers above 0, not {dict(splits)!r}")
        self.infinite = infinite
        self.bad_samples = BadSamples(on_error)
        self._ranks: tuple[int, int] | None = None
        self._epoch = 0  # of this worker: one that persists keeps torch's seed
        self._datasets: list[tuple[RecordDataset, float]] = [
            (
                item_dataset(
                    in_store(data_pattern.format(name), store),
                    None if index_pattern is None else index_pattern.format(name),
                    description,
                    math.ceil((shuffle_queue_size or 0) * ratio / total),
                    transform,
                    sequence_description,
                    compression_type,
                    self.bad_samples,
                ),
                ratio,
            )
            for name, ratio in splits.items()
            if ratio > 0
        ]

    def __iter__(self) -> Iterator[Any]:
        place = find_place(self._ranks)
        parts = [
            (dataset.part(place.workers, place.number, "record", place.seed), ratio)
            for dataset, ratio in self._datasets
        ]
        for part, _ in parts:
            part.set_epoch(self._epoch)
        draws = random.Random(repr((place.seed, place.number, self._epoch)))
        self._epoch += get_worker_info() is not None
        return _mixed(parts, draws, self.infinite)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_ranks": find_ranks(None)}


def _mixed(
    parts: list[tuple[RecordDataset, float]], draws: random.Random, infinite: bool
) -> Iterator[Any]:
    datasets = [dataset for dataset, _ in parts]
    ratios = [ratio for _, ratio in parts]
    iterators = [iter(dataset) for dataset in datasets]
    has_given = [False] * len(parts)  # since its begin; an empty file does not begin again
    try:
        while iterators:
            (at,) = draws.choices(range(len(iterators)), ratios)
            try:
                item = next(iterators[at])
            except StopIteration:
                if infinite and has_given[at]:
                    iterators[at], has_given[at] = iter(datasets[at]), False
                else:
                    del iterators[at], ratios[at], datasets[at], has_given[at]
            else:
                has_given[at] = True
                yield item
    finally:
        for iterator in iterators:
            iterator.close()
