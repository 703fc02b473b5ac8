"""hint(loader): a DataLoader tells the mount which files its sampler will give next.

torch has no place for this, so three methods of its classes are replaced by ones that call them:
where an iterator is made, where it takes the next index, and where a data set is asked for items.
The loader, its samplers and data set stay as they are, so their types and state_dict() do, too.
Nothing here raises an error into the training: an unforeseen error is logged once, and ends the
hints.

Not here: the hints of an epoch (hinted_epoch.py), what a sampler will give (epoch_order.py), the
files of a data set (dataset_paths.py, learned_paths.py).
Concurrency: the thread that iterates a loader; workers have no part in it but to learn paths.
"""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import dataloader as torch_loader
from torch.utils.data._utils import fetch as torch_fetch

from ffrfs.adapters.torch.epoch_order import UnknownOrderError
from ffrfs.adapters.torch.hint_window import AHEAD_DEFAULT
from ffrfs.adapters.torch.hinted_epoch import Epochs, Hinter, tell
from ffrfs.adapters.torch.learned_paths import Watched, learner_of
from ffrfs.adapters.torch.prefetch_sampler import PrefetchSampler
from ffrfs.errors import MountError, describe
from ffrfs.mount.client.hint_paths import HintPaths, PathType

Loader = TypeVar("Loader", bound=DataLoader[Any])

_NAME = "_ffrfs_epochs"  # an attribute of torch's iterators

log = logging.getLogger(__name__)

_hinted: weakref.WeakKeyDictionary[Any, Hinter] = weakref.WeakKeyDictionary()
_ahead_of_all: list[int] = []  # of hint_all()


def hint(loader: Loader, ahead: int = AHEAD_DEFAULT, mountpoint: PathType | None = None) -> Loader:
    """Let each iteration of `loader` tell the mount which files it will read; return `loader`.

    The hints are `ahead` samples before the item that the sampler gives. Any sampler or batch
    sampler will do, if a copy of it gives the same items. The sampler itself is not iterated, and
    no random state changes, so hints change no batch. PrefetchSampler.for_dataset() finds the files
    of an index, also in an image folder of Hugging Face's `datasets`. For any other data set with
    indices, the files are learned in the first epoch, from the files that Python opens in this
    process and in forked workers, and hinted at from the second epoch on.

    If the order cannot be known (an IterableDataset, a sampler that draws as it goes, no mount),
    hint() logs one warning and does nothing. Raises TypeError if `loader` is no DataLoader of
    torch, and ValueError for an invalid `ahead`.
    """
    if not isinstance(loader, DataLoader):
        raise TypeError(f"hint() takes a DataLoader of torch, not {type(loader).__name__}")
    if ahead < 1:
        raise ValueError(f"ahead={ahead}: must be at least 1")
    if _install():
        _hinted[loader] = Hinter(ahead, mountpoint)
    return loader


def hint_all(ahead: int = AHEAD_DEFAULT) -> None:
    """Do what hint() does for every DataLoader of this process; `ffrfs run` calls it."""
    if _install():
        _ahead_of_all[:] = [ahead]


def _made(loader: DataLoader[Any]) -> Epochs | None:
    """Return the Epochs of a new iterator; None: it gives no hints."""
    hinter = _hinted.get(loader)
    if hinter is None:
        if not _ahead_of_all:
            return None
        hinter = _hinted[loader] = Hinter(_ahead_of_all[0], None)
    dataset = loader.dataset
    is_ours = any(kind.__module__.startswith("ffrfs.") for kind in type(dataset).__mro__)
    if is_ours or isinstance(_innermost(loader), PrefetchSampler):
        return None  # it reads its pack in batches, or gives hints itself
    if isinstance(dataset, IterableDataset):
        tell("an iterable data set does not say what it will read")
        return None
    if hinter.mountpoint is None and not HintPaths(None).has_mounts:
        tell("none of the paths is in an ffrfs mount")
        return None
    return Epochs(loader, hinter)


def _innermost(loader: DataLoader[Any]) -> object:
    sampler: Any = loader._index_sampler
    while not isinstance(sampler, PrefetchSampler):
        inner = getattr(sampler, "wrapped", getattr(sampler, "sampler", None))
        if inner is None:
            break
        sampler = inner
    return sampler


@functools.cache
def _install() -> bool:
    """Replace torch's methods; return False if this torch has other ones."""
    try:
        base: Any = torch_loader._BaseDataLoaderIter
        fetcher: Any = torch_fetch._MapDatasetFetcher
        make, take, fetch = base.__init__, base._next_index, fetcher.fetch
    except AttributeError as error:
        tell(f"this version of torch is not known ({error})")
        return False

    @functools.wraps(make)
    def making(self: Any, loader: DataLoader[Any]) -> None:  # noqa: ANN401
        make(self, loader)
        self.__dict__[_NAME] = _safely(None, _made, loader)

    @functools.wraps(take)
    def taking(self: Any) -> Any:  # noqa: ANN401
        epochs: Epochs | None = getattr(self, _NAME, None)
        if epochs is None:
            return take(self)
        _safely(self, epochs.before, self._sampler_iter)
        try:
            item = take(self)
        except StopIteration:
            _safely(self, epochs.end)
            raise
        _safely(self, epochs.after, item)
        return item

    @functools.wraps(fetch)
    def fetching(self: Any, index: Any) -> Any:  # noqa: ANN401
        learned = learner_of(self.dataset)
        if learned is None or not learned.is_on:
            return fetch(self, index)
        if self.auto_collation and not getattr(self.dataset, "__getitems__", None):
            dataset = self.dataset
            self.dataset = Watched(dataset, learned)
            try:
                return fetch(self, index)
            finally:
                self.dataset = dataset
        indices = list(index) if self.auto_collation else [index]
        return learned.watch(indices, lambda: fetch(self, index))

    base.__init__, base._next_index, fetcher.fetch = making, taking, fetching
    return True


def _safely(iterator: Any, act: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401
    """Return act(); if it fails, log why, and give no more hints in this iteration."""
    try:
        return act(*arguments)
    except (UnknownOrderError, MountError) as error:
        tell(str(error))
    except Exception as error:
        tell(describe(error))
        log.debug("unforeseen", exc_info=True)
    if iterator is not None:
        epochs = getattr(iterator, _NAME)
        setattr(iterator, _NAME, None)
        try:
            epochs.stop()
        except Exception:
            log.debug("unforeseen", exc_info=True)
    return None
