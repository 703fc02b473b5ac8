"""Hinter, Epochs: the hints of a DataLoader, epoch by epoch.

Not here: where torch calls them, and what happens to their errors (hinted_loader.py).
Concurrency: the thread that iterates the loader.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from torch.utils.data import DataLoader

from ffrfs.adapters.torch.dataset_paths import shown_paths
from ffrfs.adapters.torch.epoch_order import UnknownOrderError, upcoming
from ffrfs.adapters.torch.hint_window import Window, indices_of
from ffrfs.adapters.torch.learned_paths import LearnedPaths, learn
from ffrfs.mount.client.hint_paths import HintPaths, PathType
from ffrfs.mount.client.hints import Hints
from ffrfs.mount.kernel.mountpoint import canonical

log = logging.getLogger(__name__)

_LOOKED_AT = 100

_told: set[str] = set()


def tell(reason: str, consequence: str = "nothing is read ahead: ") -> None:
    """Log a line once in this process."""
    if reason not in _told:
        _told.add(reason)
        log.warning("ffrfs: %s%s", consequence, reason)


class Hinter:
    """The knowledge about a loader, for all its epochs."""

    def __init__(self, ahead: int, mountpoint: PathType | None) -> None:
        self.ahead = ahead
        self.mountpoint = mountpoint
        self.learned: LearnedPaths | None = None
        self._shown: list[PathType] | None = None
        self._is_known = False
        self._has_ended = False  # an epoch
        self.is_complete = True  # all paths of the last epoch were known
        self.hints: Hints | None = None  # those of the last epoch

    def prepare(self, dataset: Any) -> None:  # noqa: ANN401 - of any library
        """Find the paths, or prepare to learn them, before workers are started."""
        shown = "no paths"
        if not self._is_known:
            self._is_known = True
            self._shown = shown_paths(dataset)
            if self._shown and not _has_paths(self._shown, self.mountpoint):
                self._shown = None  # names below a directory of its own, ids
                shown = "no paths of an ffrfs mount"
        if self._shown is None and self.learned is None:
            self.learned = learn(dataset, self.mountpoint)
            tell(
                f"{type(dataset).__name__} shows {shown} (samples, imgs, paths, files); its files "
                "are learned in the first epoch, and read ahead from the second on",
                "",
            )

    def paths(self, index: Any) -> Sequence[PathType]:  # noqa: ANN401 - as a sampler gives it
        if self.learned is not None:
            return self.learned.get(index)
        return [] if self._shown is None else [self._shown[index]]

    def begin(self, window: Window) -> None:
        self.end()
        learned = self.learned
        if learned is not None:
            if self._has_ended and len(learned) == 0:
                tell(
                    "its items opened no file of a mount that Python sees, in this process or in "
                    "forked workers"
                )
                learned.is_full = True
            learned.is_on = not (self._has_ended and self.is_complete) and not learned.is_full
        self._has_ended, self.is_complete = True, True
        self.hints = Hints(window, self.mountpoint)

    def end(self) -> None:
        """Drop the hints that were not followed yet."""
        if self.hints is not None:
            self.hints.close()
            self.hints = None


def _has_paths(paths: list[PathType], mountpoint: PathType | None) -> bool:
    """Return whether any of some, from all parts of the list, can be in the mount, or exists."""
    mounts = HintPaths(None if mountpoint is None else canonical(os.fsdecode(mountpoint)))
    some = paths[:: len(paths) // _LOOKED_AT + 1]
    return any(mounts.hint(path) is not None or os.path.exists(path) for path in some)


class Epochs:
    """The epochs of one iterator of torch, which may begin again with persistent workers."""

    def __init__(self, loader: DataLoader[Any], hinter: Hinter) -> None:
        self._hinter = hinter
        self._sampler = loader._index_sampler
        self._dataset = loader.dataset
        self._items: Iterator[Any] | None = None  # torch's, of the epoch
        self._epoch: _Epoch | None = None
        self._pid = os.getpid()
        hinter.prepare(loader.dataset)

    def before(self, items: Iterator[Any]) -> None:
        """Note that the next item is about to be taken from `items`."""
        if self._hinter.learned is not None:
            self._hinter.learned.receive()
        if items is not self._items:
            self.stop()
            self._items = items
            ahead = upcoming(self._sampler, items, self._dataset)
            self._epoch = _Epoch(self._hinter, ahead)
            self._epoch.begin()

    def after(self, item: Any) -> None:  # noqa: ANN401 - as a sampler gives it
        if self._epoch is not None:
            self._epoch.take(item)

    def end(self) -> None:
        """Note that the epoch was read to its end, so that the last hints hold."""
        if self._epoch is not None:
            self._epoch.end()
            self._epoch = None

    def stop(self) -> None:
        """Leave the epoch before its end."""
        if self._epoch is not None:
            self._epoch.window.end()
            self._epoch = None
            self._hinter.end()

    def __del__(self) -> None:
        if getattr(self, "_epoch", None) is not None and os.getpid() == self._pid:
            self.stop()


class _Epoch:
    """An epoch's hints. A lookup that fails, or another order than foreseen, is an error."""

    def __init__(self, hinter: Hinter, ahead: Iterator[Any]) -> None:
        self.window = Window()
        self._hinter = hinter
        self._ahead = ahead
        self._waiting: deque[tuple[list[Any], int]] = deque()  # (indices, count of paths)
        self._index_count = self._path_count = 0  # of these
        self._has_begun = False

    def begin(self) -> None:
        self._hinter.begin(self.window)
        self._step()  # while the random state is the same as the sampler's will be

    def take(self, item: Any) -> None:  # noqa: ANN401 - as a sampler gives it
        """Note an item that the sampler has given, and announce the items ahead of it."""
        indices = indices_of(item)
        while self._waiting or self._step():
            expected, count = self._waiting.popleft()
            self._index_count -= len(expected)
            self._path_count -= count
            if expected == indices:
                break
            if self._has_begun:  # before that, the epoch may be one that is resumed
                raise UnknownOrderError("its sampler gave another order than a copy of it")
        else:
            raise UnknownOrderError("its sampler gave another order than a copy of it")
        if not self._has_begun:
            self._has_begun = True
            self._announce(indices)  # workers may not have read it yet, and a receipt counts it
        while self._index_count < self._hinter.ahead and self._step():
            pass

    def _step(self) -> bool:
        for item in self._ahead:
            indices = indices_of(item)
            count = self._announce(indices) if self._has_begun else 0
            self._waiting.append((indices, count))
            self._index_count += len(indices)
            self._path_count += count
            return True
        return False

    def _announce(self, indices: list[Any]) -> int:
        """Add the paths of an item to the window; return their number."""
        found = [self._hinter.paths(index) for index in indices]
        paths = [path for its in found for path in its]
        self._hinter.is_complete &= all(found)
        # Samples that were just taken may be unread: workers have a queue.
        self.window.add(paths, keep=self._path_count + len(paths) + self._hinter.ahead)
        return len(paths)

    def end(self) -> None:
        self.window.end()
        hints = self._hinter.hints
        if hints is not None and hints.all_skipped():
            tell("none of the paths is in an ffrfs mount")
        elif hints is not None and hints.skipped:
            tell(
                "others are in another one, or in none",
                "only the files of one mount are read ahead: ",
            )
