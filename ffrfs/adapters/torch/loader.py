"""DataLoader: torch's, with resume_at(), set_step() and receipt().

Not here: skipping (skipping_sampler.py), what an epoch has given (receipt.py).
Concurrency: that of torch's; one thread iterates.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any, SupportsIndex, TypeVar

from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import Dataset, IterableDataset

from ffrfs.adapters.bad_samples import BadSamples
from ffrfs.adapters.torch.receipt import EpochNotes, Receipt, note
from ffrfs.adapters.torch.skipping_sampler import SkippingSampler

T_co = TypeVar("T_co", covariant=True)


class DataLoader(TorchDataLoader[T_co]):
    """torch's DataLoader with all its arguments, for any data set, resume_at() and set_step().

    Workers start as torch's do; the reference always forks them. For skipping its
    `batch_sampler` (with batch_size=None: its `sampler`) is a SkippingSampler, which has the
    attributes of the wrapped one. With `skippable` False it is the wrapped one itself, as
    frameworks need it that rebuild a loader from the type, and skipping raises an error.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - as torch's
        skippable: bool = True,
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        self.skippable = skippable
        self._next_first_step = 0  # first step of the epoch that begins next
        self._later_first_step = 0  # first step of all epochs after that
        self._notes: EpochNotes | None = None
        super().__init__(*args, **kwargs)

    # torch assigns these two in its __init__, and reads them when an epoch begins.

    @property
    def batch_sampler(self) -> Any:  # noqa: ANN401 - any iterable, with attributes of its own
        return self._batch_sampler

    @batch_sampler.setter
    def batch_sampler(self, sampler: Iterable[Any] | None) -> None:
        self._batch_sampler = None if sampler is None else self._skipping(sampler)

    @property
    def sampler(self) -> Any:  # noqa: ANN401 - any iterable, with attributes of its own
        return self._item_sampler if self.batch_sampler is None else self._sampler

    @sampler.setter
    def sampler(self, sampler: Iterable[Any]) -> None:
        self._sampler = sampler
        self._item_sampler = self._skipping(sampler)

    def _skipping(self, sampler: Iterable[Any]) -> Iterable[Any]:
        return SkippingSampler(sampler) if self.skippable else sampler

    @property
    def _steps(self) -> Iterable[Any]:
        """The source of an epoch's steps: batches, or items if batch_size is None."""
        steps: Iterable[Any] = self.sampler if self.batch_sampler is None else self.batch_sampler
        return steps

    def set_step(self, step: SupportsIndex) -> None:
        """Let every epoch from now on begin with its batch number `step`, until the next call.

        The name and meaning are the reference's: reset it by set_step(0) before the epoch after
        the resumed one, which resume_at() does by itself. Everything else that is said there
        holds here, too. len(loader) is the number of batches that are left.
        """
        self._skip(step, "set_step")
        self._later_first_step = self._next_first_step

    def resume_at(self, step: SupportsIndex) -> None:
        """Let the next epoch begin with its batch number `step`; the epochs after it are whole.

        An epoch begins with iter(loader). This ends an earlier set_step().

        Skipped items are not read, nor hinted at by a PrefetchSampler. Batches are those
        of an uninterrupted run, in that epoch and later ones, if all their sources are in the
        state that they had when that epoch began: the `generator`, or torch's own if none is
        given; a sampler's set_epoch().

        To resume in a later epoch, seed the generator for each epoch, or restore the state
        that it had before iter(loader). Or pass over the earlier epochs, which costs as much
        as their samplers and the start of workers. That is the only way for
        persistent_workers and a sampler that share a generator, as they do with shuffle:
        torch draws from it for the workers too, but only in the first epoch.

            count = len(loader)
            for _ in range(epoch):
                loader.resume_at(count)
                list(loader)
            loader.resume_at(step)

        Random numbers drawn by the data set are not repeated within that epoch. torch gives
        the workers the same seeds, but batch `step` goes to the first worker, and none has
        drawn for the skipped batches. Later epochs have the same random numbers again, unless
        workers persist, or there are none and the process's own generators are in another
        state. A data set that seeds by epoch and item is exact everywhere.

        len(loader) is the number of batches that are left, until the next epoch after that
        begins. Raises ValueError if the epoch has no such step (its end is one), or the
        loader is not skippable; TypeError for an iterable data set, which could skip only by
        reading.
        """
        self._skip(step, "resume_at")
        self._later_first_step = 0

    def _skip(self, step: SupportsIndex, caller: str) -> None:
        first = operator.index(step)
        if isinstance(self.dataset, IterableDataset):
            raise TypeError(
                f"{type(self.dataset).__name__} is iterable: it cannot skip without reading; "
                f"{caller}() needs a data set that takes numbers"
            )
        steps = self._steps
        if not isinstance(steps, SkippingSampler):
            raise ValueError(f"{caller}() needs a loader that was made with skippable=True")
        _check_step(first, steps.wrapped)
        steps.first_step = self._next_first_step = first

    def __iter__(self) -> Any:  # noqa: ANN401 - torch's iterator, whose class is private
        steps = self._steps
        if isinstance(steps, SkippingSampler):
            steps.first_step = self._next_first_step
        if self._notes is not None:
            self._notes.report()  # of an epoch that was left
        found = {id(each): each for each in _bad_samples(self.dataset)}
        self._notes = EpochNotes(self.dataset if self.skippable else None, list(found.values()))
        if isinstance(steps, SkippingSampler):
            steps.watch = self._notes
        batches = super().__iter__()
        self._next_first_step = self._later_first_step
        note(batches, self._notes)
        return batches

    def receipt(self) -> Receipt | None:
        """Return which samples the epoch that began last has given so far, and their order.

        None: no epoch has begun. With a DistributedSampler the receipt is about this rank's share.
        Samples that a worker has read ahead of the loop are not given yet. With in_order=False the
        order is the sampler's, and so is the choice of samples until the epoch is complete.

        Raises ValueError for a data set or a sampler that has no numbers of samples, and for a
        loader that is not skippable.
        """
        if not self.skippable:
            raise ValueError("receipt() needs a loader that was made with skippable=True")
        return None if self._notes is None else self._notes.receipt()


def _bad_samples(dataset: object) -> Iterator[BadSamples]:
    """Yield each BadSamples that leaves samples out, of a data set and of those that it is made of.

    It looks only at data sets, and only into their __dict__: other objects may answer to any name,
    and a property may open files, which forked workers would share.
    """
    pending, seen = [dataset], set[int]()
    while pending:
        each = pending.pop()
        held = getattr(each, "__dict__", {})
        bad = held.get("bad_samples")
        if isinstance(bad, BadSamples) and bad.on_error != "raise":
            yield bad
        if id(each) not in seen and (each is dataset or isinstance(each, Dataset)):
            seen.add(id(each))
            several = held.get("datasets")  # taking from an iterator would change it
            pending += several if isinstance(several, list | tuple) else []
            pending.append(held.get("dataset"))


def _check_step(step: int, steps: Iterable[Any]) -> None:
    if step < 0:
        raise ValueError(f"step {step} is negative")
    try:
        count = len(steps)  # type: ignore[arg-type]
    except TypeError:  # a sampler need not have a length
        return
    if step > count:
        raise ValueError(f"step {step} does not exist: the epoch has {count}")
