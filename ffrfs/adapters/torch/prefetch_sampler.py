"""PrefetchSampler: tells a mount which files a DataLoader is about to read.

A sampler knows the order of an epoch before anything is read. For a data set that reads
plain paths of a mount, this sampler sends the coming files as hints (ffrfs.prefetch), which
take no time of the training.

Concurrency: the process that iterates, usually the main one. A thread of
ffrfs.mount.client.hints sends the hints; a DataLoader's workers have no part in it.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Self

from torch.utils.data import RandomSampler, Sampler

from ffrfs.adapters.torch.dataset_paths import shown_paths
from ffrfs.adapters.torch.hint_window import AHEAD_DEFAULT, Window, indices_of
from ffrfs.adapters.torch.skipping_sampler import is_skipping
from ffrfs.errors import MountError
from ffrfs.mount.client.hint_paths import PathType
from ffrfs.mount.client.hints import Hints


class PrefetchSampler(Sampler[Any]):
    """Yields the items of `sampler`, in order, and hints at them `ahead` samples before.

    `sampler` yields indices, or lists of them (a batch sampler); `paths[index]` is the file
    that the data set reads for an index, as ffrfs.prefetch takes it, and so is `mountpoint`.
    It replaces the wrapped one: DataLoader(sampler=...) or DataLoader(batch_sampler=...).
    All other attributes are those of the wrapped one: len(), set_epoch(), batch_size,
    drop_last, sampler.

    The wrapped one is iterated `ahead` samples earlier than without. Samples that our
    DataLoader skips get no hints. A new iteration drops the hints of the one before.
    Without a mount, there is one warning, and no hints. Raises ValueError if the data set of
    `sampler` has more samples than there are paths.
    """

    def __init__(
        self,
        sampler: Iterable[Any],
        paths: Sequence[PathType],
        mountpoint: PathType | None = None,
        ahead: int = AHEAD_DEFAULT,
    ) -> None:
        if ahead < 1:
            raise ValueError(f"ahead={ahead}: must be at least 1")
        count = _sample_count(sampler)
        if count is not None and count > len(paths):
            raise ValueError(
                f"{len(paths):,} paths for {count:,} samples: paths[index] is the file of an index"
            )
        self._wrapped = sampler
        self._paths = paths
        self._mountpoint = mountpoint
        self._ahead = ahead
        self._hints: Hints | None = None
        self._warned: set[str] = set()

    @classmethod
    def for_dataset(
        cls,
        dataset: Any,  # noqa: ANN401 - of any library
        sampler: Iterable[Any] | None = None,
        mountpoint: PathType | None = None,
        ahead: int = AHEAD_DEFAULT,
    ) -> Self:
        """Return the sampler for torchvision's ImageFolder and its kind, or a Subset of one.

        The paths are `dataset.samples` or `imgs`, of (path, target), or `paths` or `files`.
        `sampler`: RandomSampler(dataset) by default. Raises TypeError for a data set that has
        none of these: give PrefetchSampler() the paths.
        """
        paths = shown_paths(dataset)
        if paths is None:
            raise TypeError(
                f"{type(dataset).__name__} has no list of paths (samples, imgs, paths, files): "
                "give them to PrefetchSampler(sampler, paths)"
            )
        return cls(RandomSampler(dataset) if sampler is None else sampler, paths, mountpoint, ahead)

    def __iter__(self) -> Iterator[Any]:
        self._drop()
        items = iter(self._wrapped)
        if is_skipping():  # skipped items are not read
            for item in items:
                yield item
                if not is_skipping():
                    break
            else:
                return
        yield from self._hinting(items)

    def _hinting(self, items: Iterator[Any]) -> Iterator[Any]:
        window = Window()
        self._hints = hints = self._hinted(window)
        try:
            yield from items if hints is None else self._announced(items, window)
        except GeneratorExit:  # the caller leaves the epoch before its end
            if hints is not None:
                hints.close()
            raise
        finally:
            window.end()
        if hints is not None and hints.all_skipped():
            self._warn("none of the paths is in an ffrfs mount")
        elif hints is not None and hints.skipped:
            self._warn("others are in another one, or in none", "only the files of one mount are")

    def __len__(self) -> int:
        return len(self._wrapped)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the wrapped one's attribute
        if name.startswith("_"):  # an attribute of ours that is not set yet
            raise AttributeError(name)
        return getattr(self._wrapped, name)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_hints": None}

    def _announced(self, items: Iterator[Any], window: Window) -> Iterator[Any]:
        waiting: deque[tuple[Any, int]] = deque()
        count = 0  # samples that were announced, and not yielded
        for item in items:
            indices = indices_of(item)
            waiting.append((item, len(indices)))
            count += len(indices)
            # Samples that were just yielded may be unread: workers have a queue.
            window.add([self._paths[index] for index in indices], keep=count + self._ahead)
            while count - waiting[0][1] >= self._ahead:
                next_item, next_count = waiting.popleft()
                count -= next_count
                yield next_item
        yield from (item for item, _ in waiting)

    def _hinted(self, window: Window) -> Hints | None:
        try:
            return Hints(window, self._mountpoint)
        except MountError as error:
            self._warn(str(error))
            return None

    def _warn(self, reason: str, what: str = "nothing is") -> None:
        if reason not in self._warned:
            self._warned.add(reason)
            warnings.warn(f"{what} read ahead: {reason}", RuntimeWarning, stacklevel=3)

    def _drop(self) -> None:
        if self._hints is not None:
            self._hints.close()
            self._hints = None


def _sample_count(sampler: object) -> int | None:
    """Return how many samples the data set of a sampler has, if the sampler knows it."""
    inner = getattr(sampler, "sampler", sampler)  # of a batch sampler
    source = getattr(inner, "data_source", getattr(inner, "dataset", None))
    return len(source) if isinstance(source, Sized) else None
