"""RecordStream: a RecordDataset for torch's DataLoader, divided among workers and ranks.

Not here: reading, and dividing into parts (ffrfs.tfrecord.dataset). Concurrency: that of
RecordDataset: every worker begins its own iterator, with its own threads.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple, SupportsIndex

import torch
from torch.utils.data import IterableDataset, get_worker_info

from ffrfs.adapters.bad_samples import BadSamples
from ffrfs.tfrecord.dataset.record_dataset import PartBy, RecordDataset

_SEEDS = 1 << 62


class Place(NamedTuple):
    """The number of this process among all workers of all ranks."""

    number: int
    workers: int
    seed: int  # the same for all workers of a rank; another in each epoch


class RecordStream(IterableDataset[Any]):
    """The elements of `dataset`: each worker of each rank yields its own part.

    Ranks are those of torch.distributed, if it is initialised. `by`: how the parts are
    made, see RecordDataset.part(): "auto" (by file if there are as many files as workers,
    else by record), "file" or "record". By file, ranks get as many records as their files
    have; by record they differ by one at most, so let a rank take() the same number if all
    must do the same number of steps.

    shuffle() without a seed follows torch's: another order in each epoch, the same after the
    same torch.manual_seed(); one that keeps its order does not. If it has a seed, call
    set_epoch() before each epoch: workers that are restarted do not know how many there were.

    state_dict() and load_state_dict() are those of RecordDataset, in this process. In
    DataLoader's workers call them through a loader that saves its workers, such as torchdata's
    StatefulDataLoader; with num_workers=0 they are exact by themselves.
    """

    bad_samples: BadSamples | None = None  # those of a TFRecordDataset

    def __init__(self, dataset: RecordDataset, by: PartBy = "auto") -> None:
        if not isinstance(dataset, RecordDataset):
            raise TypeError(f"a RecordStream is made of a RecordDataset, not {dataset!r}")
        self.dataset = copy.copy(dataset)  # with a number of the epoch of its own
        self.by = by
        self._ranks: tuple[int, int] | None = None  # those of the process that pickled it
        self._part: RecordDataset | None = None  # the part of the last iteration
        self._seed_age = 0  # in epochs: workers that persist keep torch's seed
        self._state: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        place = find_place(self._ranks)
        if place.workers > 1 and find_ranks(self._ranks)[1] > 1:
            self.dataset.part(place.workers, place.number, self.by)  # may raise: ranks draw seeds
        part = self.dataset.part(place.workers, place.number, self.by, place.seed)
        part._seed_age = self._seed_age
        if self._state is not None:
            part.load_state_dict(self._state)
            self._state = None
        self._part = part
        iterator = iter(part)
        self.dataset.set_epoch(iterator.run.epoch + 1)
        self.dataset._fixed_seed = iterator.run.fixed_seed  # may be that of the state
        if get_worker_info() is not None:
            self._seed_age = iterator.run.age + 1
        return iterator

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """Set the number of the next epoch; with persistent workers it grows by one each time."""
        self.dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the iterator that was begun last, in this process."""
        if self._part is None:
            raise ValueError("there is no iterator whose state could be saved; keep it: iter(data)")
        return self._part.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration continue there. It raises ValueError for the state of another
        data set, or of a division among another number of workers.
        """
        self._state = state

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_ranks": find_ranks(None), "_part": None}


def find_ranks(known: tuple[int, int] | None) -> tuple[int, int]:
    """Return this process's rank, and the number of ranks. `known`: sent to a spawned worker."""
    if known is not None and get_worker_info() is not None:
        return known
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def find_place(known_ranks: tuple[int, int] | None) -> Place:
    rank, ranks = find_ranks(known_ranks)
    worker = get_worker_info()
    if worker is None:
        return Place(rank, ranks, int(torch.randint(_SEEDS, ()).item()))
    number = worker.id * ranks + rank  # so that ranks differ by one record at most, too
    return Place(number, ranks * worker.num_workers, worker.seed - worker.id)
