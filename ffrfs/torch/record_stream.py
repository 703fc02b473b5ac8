"""RecordStream: a RecordDataset for torch's DataLoader, divided among workers and ranks.

Not here: reading, and what a part is (ffrfs.tfrecord.dataset). Concurrency: as
RecordDataset's: every worker begins an iterator of its own, with its own threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, SupportsIndex

import torch
from torch.utils.data import IterableDataset, get_worker_info

from ffrfs.tfrecord.dataset.record_dataset import PartBy, RecordDataset

_SEEDS = 1 << 62


class Place(NamedTuple):
    """Which of all workers of all ranks this process is."""

    number: int
    workers: int
    seed: int  # the same for all workers of a rank; another in each epoch


class RecordStream(IterableDataset[Any]):
    """What `dataset` gives: each worker of each rank gives its own part of it.

    Ranks are those of torch.distributed, where it is initialised. `by`: how the parts are
    made, see RecordDataset.part(): "auto" (by file if there are as many files as workers,
    else by record), "file" or "record". By file, ranks get as many records as their files
    have; by record they differ by one at most, so let a rank take() the same number where all
    must do the same number of steps.

    shuffle() without a seed follows torch's: another order in each epoch, the same after the
    same torch.manual_seed(). With a seed of its own, call set_epoch() before each epoch:
    workers that are started anew do not know how many there were.

    state_dict() and load_state_dict() are those of RecordDataset, of this process. In
    DataLoader's workers call them through a loader that saves its workers, as torchdata's
    StatefulDataLoader; with num_workers=0 they are exact by themselves.
    """

    def __init__(self, dataset: RecordDataset, by: PartBy = "auto") -> None:
        if not isinstance(dataset, RecordDataset):
            raise TypeError(f"a RecordStream is made of a RecordDataset, not {dataset!r}")
        self.dataset = dataset
        self.by = by
        self._ranks: tuple[int, int] | None = None  # as the process knew that pickled us
        self._part: RecordDataset | None = None  # what was iterated over last
        self._state: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        place = find_place(self._ranks)
        if place.workers > 1 and find_ranks(self._ranks)[1] > 1:
            self.dataset.part(place.workers, place.number, self.by)  # ranks draw seeds of their own
        part = self.dataset.part(place.workers, place.number, self.by, place.seed)
        if self._state is not None:
            part.load_state_dict(self._state)
            self._state = None
        self._part = part
        iterator = iter(part)
        self.dataset.set_epoch(iterator.epoch + 1)
        return iterator

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """Say which epoch begins next; for persistent workers it is one more each time."""
        self.dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the iterator is that was begun last, in this process."""
        if self._part is None:
            raise ValueError("there is no iterator whose state could be saved; keep it: iter(data)")
        return self._part.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration go on there. It raises ValueError for the state of another
        data set, or of one that was divided among another number of workers.
        """
        self._state = state

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_ranks": find_ranks(None), "_part": None}


def find_ranks(known: tuple[int, int] | None) -> tuple[int, int]:
    """This process's rank, and how many there are. `known`: what a spawned worker was sent."""
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
    number = worker.id * ranks + rank  # so that ranks, too, differ by one record at most
    return Place(number, ranks * worker.num_workers, worker.seed - worker.id)
