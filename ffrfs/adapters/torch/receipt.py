"""Receipt: which samples a DataLoader has given in an epoch, and a digest of their order.

`ffrfs stats --coverage` is the same for a mount. torch takes items from the sampler before their
batches are given, for workers; an item counts when its batch has come.

Not here: the loader (loader.py). Concurrency: the thread that iterates the loader.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import itertools
import logging
import operator
import os
import re
import sys
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from torch.utils.data import IterableDataset

from ffrfs.adapters.bad_samples import BadSamples
from ffrfs.adapters.torch.dataset_paths import shown_paths
from ffrfs.adapters.torch.hint_window import indices_of
from ffrfs.adapters.torch.packed_folder_dataset import PackedFolderDataset
from ffrfs.mount.client.hint_paths import PathType

NEVER_MAX = 1000


log = logging.getLogger(__name__)


class Receipt(NamedTuple):
    """The samples of an epoch, as far as this process was given them; str() is a line.

    An order is the SHA-256 of the samples' names in the order in which they were given, a zero
    byte after each: "/cat/1.jpg" for the files of packs, as in a mount's hints, or the number.
    """

    samples: int  # of the data set
    once: int
    more: int  # given more often
    never: int
    never_samples: list[int]  # the first 1,000 of them
    given: int  # length of the order
    sha256: str
    is_complete: bool  # the sampler's items were all given
    bad: int  # samples that could not be read, in batches that were given or on their way

    def __str__(self) -> str:
        share = f"{100 * (self.once + self.more) / self.samples:.2f} %" if self.samples else "none"
        end = "" if self.is_complete else ", left before its end"
        bad = f", {self.bad:,} could not be read" if self.bad else ""
        return (
            f"{self.samples:,} samples, {share} given: {self.once:,} once, {self.more:,} more "
            f"often, {self.never:,} never{bad}; order of {self.given:,}{end}, sha256 {self.sha256}"
        )


class EpochNotes:
    """The notes about an epoch; copies of a loader or sampler have None instead."""

    def __init__(self, dataset: Any, bad: Sequence[BadSamples]) -> None:  # noqa: ANN401 - torch's
        """`dataset`: None for a loader that gives no receipt, so that it costs nothing."""
        self._bad = bad
        self._bad_before = sum(each.count() for each in bad)
        self._taken: deque[Any] = deque()  # items whose batches were not given yet
        self._has_ended = False  # the sampler
        self._times = bytearray()  # how often each sample was given, up to 2
        self._given = 0
        self._digest = hashlib.sha256()
        self._paths: Sequence[PathType] | None = None
        self._fault = "" if dataset is not None else "the loader was made with skippable=False"
        if isinstance(dataset, IterableDataset):
            self._fault = f"{type(dataset).__name__} is iterable: it does not say what it gives"
        if self._fault:
            return
        try:
            self._paths = shown_paths(dataset, _packed_paths)
            self._times = bytearray(len(dataset))
        except Exception as error:  # the job may do without a length
            self._fault = f"{type(dataset).__name__} does not say which samples it has ({error})"

    def __reduce__(self) -> Any:  # noqa: ANN401
        return _nothing, ()

    def over(self, items: Iterator[Any]) -> Iterator[Any]:
        """Yield the sampler's items, and note that they were taken."""
        for item in items:
            self._taken.append(item)
            yield item
        self._has_ended = True

    def give(self) -> None:
        """Note that the batch of the oldest item was given."""
        item = self._taken.popleft() if self._taken else ()
        if self._fault:
            return
        try:
            for index in indices_of(item):
                number = operator.index(index)
                self._times[number] += self._times[number] < 2
                name = b"%d" % (number % len(self._times))
                if self._paths is not None:
                    name = b"/" + os.fsencode(self._paths[number])
                self._digest.update(name + b"\0")
                self._given += 1
        except (TypeError, IndexError):
            self._fault = f"its sampler gave {item!r:.100}, not numbers of samples"

    def drop(self) -> None:
        """Note that the oldest item had no batch, but an error."""
        if self._taken:
            self._taken.popleft()

    def report(self) -> None:
        """Log which samples could not be read, if there is something new."""
        for each in self._bad:
            if (line := each.report()) is not None:
                log.warning("ffrfs: %s", line)

    def receipt(self) -> Receipt:
        """Return the receipt so far. Raises ValueError if samples cannot be counted."""
        if self._fault:
            raise ValueError(f"there is no receipt: {self._fault}")
        times = self._times
        zeros = itertools.islice(re.finditer(rb"\0", times), NEVER_MAX)
        return Receipt(
            samples=len(times),
            once=times.count(1),
            more=times.count(2),
            never=times.count(0),
            never_samples=[zero.start() for zero in zeros],
            given=self._given,
            sha256=self._digest.hexdigest(),
            is_complete=self._has_ended and not self._taken,
            bad=sum(each.count() for each in self._bad) - self._bad_before,
        )


def _packed_paths(dataset: object) -> list[Any] | None:
    return dataset.paths if isinstance(dataset, PackedFolderDataset) else None


def _nothing() -> None: ...


class _Noted:
    """An iterator of torch that notes which batches it has given."""

    ffrfs_notes: EpochNotes
    _num_workers: int  # torch's

    def __next__(self) -> Any:  # noqa: ANN401 - a batch
        notes = self.ffrfs_notes
        try:
            batch = super().__next__()  # type: ignore[misc] # torch's
        except StopIteration:
            notes.report()
            raise
        except BaseException as error:
            # A batch of workers for which Ctrl-C did not wait comes with a later call.
            if isinstance(error, Exception) or not self._num_workers:
                notes.drop()
            raise
        notes.give()
        return batch

    def __del__(self) -> None:
        try:
            if not sys.is_finalizing():  # _report_all() has done it, and open() is gone by now
                self.ffrfs_notes.report()
        finally:
            getattr(super(), "__del__", _nothing)()


_alive: weakref.WeakSet[Any] = weakref.WeakSet()


@atexit.register
def _report_all() -> None:
    """Report for the iterators that are left when the program ends, as of persistent workers."""
    for each in list(_alive):
        each.ffrfs_notes.report()


@functools.cache
def _noted(kind: Any) -> Any:  # noqa: ANN401 - types
    return type(kind.__name__, (_Noted, kind), {})


def note(batches: Any, notes: EpochNotes) -> None:  # noqa: ANN401 - of a private class
    """Let an iterator of torch, which begins an epoch, note its items; its type is kept."""
    if not isinstance(batches, _Noted):
        batches.__class__ = _noted(batches.__class__)
    batches.ffrfs_notes = notes
    _alive.add(batches)
