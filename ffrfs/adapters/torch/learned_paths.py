"""LearnedPaths: which files of a mount a data set opens for an index, learned from its opens.

While an item is made, an audit hook of Python sees each open() in that thread; files that C code
opens by itself (cv2.imread, h5py) are not seen. Workers must be forked: they send the paths through
a pipe, which the main process empties when it takes the next index. Paths that do not fit are
learned in the next epoch.

Not here: what torch calls (hinted_loader.py).
Concurrency: one LearnedPaths for the process that iterates and the workers that were forked from
it; a thread each.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import mmap
import operator
import os
import select
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ffrfs.adapters.torch.epoch_order import UnknownOrderError
from ffrfs.mount.client.hint_paths import HintPaths, PathType
from ffrfs.mount.kernel.mountpoint import canonical

_MEMORY_MAX = 512 << 20
_ITEM_SIZE = 200  # of an entry, without the text of its paths
_PIPE_SIZE = 1 << 20

_learned: dict[int, LearnedPaths] = {}  # by id() of a data set that is alive
_making = threading.local()  # its `opens` are those of the item that is being made


class LearnedPaths:
    """Index → paths. `is_on`: more is learned, here and in workers; `is_full`: none can be."""

    def __init__(self, mountpoint: PathType | None) -> None:
        self._paths: dict[int, list[str]] = {}
        self._size = 0
        self._mounts = HintPaths(None if mountpoint is None else canonical(os.fsdecode(mountpoint)))
        self._pid = os.getpid()
        # Shared with forked workers.
        self._flag = mmap.mmap(-1, 1)
        self._receiving, self._sending = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a limit for this user
            fcntl.fcntl(self._sending, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        self._begun = b""
        self.is_on, self.is_full = True, False

    def __del__(self) -> None:
        for end in (getattr(self, "_receiving", -1), getattr(self, "_sending", -1)):
            if end >= 0:
                os.close(end)

    def __len__(self) -> int:
        return len(self._paths)

    @property
    def is_on(self) -> bool:
        return self._flag[0] != 0

    @is_on.setter
    def is_on(self, value: bool) -> None:
        self._flag[0] = value

    def get(self, index: object) -> list[str]:
        """Return the paths of an index, or none."""
        return self._paths.get(operator.index(index), [])  # type: ignore[arg-type] # TypeError

    def watch(self, indices: Sequence[Any], make: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Return make(), which makes the items of `indices`, and learn the files that it opens.

        Each item of a batch opens as many files as the others, or nothing is learned.
        """
        _hook()
        opens: list[Any] = []
        _making.opens = opens
        try:
            return make()
        finally:
            _making.opens = None
            with contextlib.suppress(Exception):  # an error of learning must not end the job
                self._note(indices, opens)

    def _note(self, indices: Sequence[Any], opens: Sequence[Any]) -> None:
        paths = [os.fsdecode(path) for path in opens if self._mounts.hint(path) is not None]
        share, rest = divmod(len(paths), len(indices))
        if not paths or rest:
            return
        for place, index in enumerate(indices):
            number = operator.index(index)
            its = list(dict.fromkeys(paths[place * share : (place + 1) * share]))
            if os.getpid() == self._pid:
                self._add(number, its)
            else:
                text = b"\0".join([b"%d" % number, *map(os.fsencode, its)]) + b"\0\0"
                if len(text) <= select.PIPE_BUF:  # else it might mix with another worker's
                    os.write(self._sending, text)

    def receive(self) -> None:
        """Take the paths that workers have sent. Never waits."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._receiving, _PIPE_SIZE):
                *texts, self._begun = (self._begun + chunk).split(b"\0\0")
                for text in texts:
                    number, *paths = text.split(b"\0")
                    self._add(int(number), list(map(os.fsdecode, paths)))

    def _add(self, number: int, paths: list[str]) -> None:
        if number not in self._paths and not self.is_full:
            self._paths[number] = paths
            self._size += _ITEM_SIZE + sum(map(len, paths))
            self.is_full = self._size > _MEMORY_MAX


def learner_of(dataset: object) -> LearnedPaths | None:
    """Return the paths learned for a data set."""
    return _learned.get(id(dataset))


def learn(dataset: Any, mountpoint: PathType | None) -> LearnedPaths:  # noqa: ANN401
    """Return the paths learned for a data set, by all its loaders."""
    found = _learned.get(id(dataset))
    if found is None:
        found = LearnedPaths(mountpoint)
        try:
            forget = weakref.finalize(dataset, _learned.pop, id(dataset), None)
        except TypeError:
            kind = type(dataset).__name__
            raise UnknownOrderError(
                f"a {kind} shows no paths, and none can be learned of it"
            ) from None
        forget.atexit = False
        _learned[id(dataset)] = found
    return found


class Watched:
    """A data set whose items are learned one by one, in the place of `dataset`."""

    def __init__(self, dataset: Any, learned: LearnedPaths) -> None:  # noqa: ANN401
        self._dataset = dataset
        self._learned = learned

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401 - what the data set takes
        return self._learned.watch([index], lambda: self._dataset[index])


@functools.cache  # such a hook cannot be removed
def _hook() -> None:
    sys.addaudithook(_on_event)


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and (opens := getattr(_making, "opens", None)) is not None:
        path = arguments[0]
        if isinstance(path, str | bytes | os.PathLike):
            opens.append(path)
