"""The files of the objects of a cache, as an eviction, `ffrfs cache` and its check see them.

Not here: their contents (state_file.py), which objects there are (directory.py, memory.py).
Concurrency: a caller has files of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ffrfs.cache.state_file import BLOCK_SIZE, StateFile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DISK_BLOCK = 512  # unit of st_blocks, on every file system
_SLACK = 1 << 16  # space of a file beyond its blocks, such as the file system's metadata


@dataclass
class Files:
    """The two files of an object, opened separately, so that their locks exclude all other users.

    `is_current`: `live` is of this boot; otherwise `durable` says which blocks are present.
    """

    state: StateFile
    data: int
    pinned: bool
    is_current: bool

    def present(self) -> Iterator[NDArray[np.int64]]:
        """Yield the blocks that are present, part by part."""
        return self.state.present() if self.is_current else self.state.durable()

    def size(self) -> int:
        """Return the number of bytes of the blocks that are present."""
        state, last = self.state, self.state.block_count - 1
        count = state.present_count() if self.is_current else state.durable_count()
        if count == 0 or not self.is_there(last):
            return count * BLOCK_SIZE
        return (count - 1) * BLOCK_SIZE + state.size_of(last)

    def is_there(self, block: int) -> bool:
        return self.state.number(block) != 0 if self.is_current else self.state.is_durable(block)

    def allocated(self) -> int:
        return self._data_allocated() + _DISK_BLOCK * os.fstat(self.state.fd).st_blocks

    def has_leaks(self, size: int) -> bool:
        """Return whether no block uses some of the space; `size`: size(). See punch_leaks()."""
        return self._data_allocated() > size + _SLACK

    def _data_allocated(self) -> int:
        return _DISK_BLOCK * os.fstat(self.data).st_blocks


class Objects(Protocol):
    """The objects of a cache."""

    def names(self) -> list[str]: ...

    def opened(self, name: str) -> AbstractContextManager[Files | None]:
        """Yield the object's files, or None if it was removed, or cannot be used."""
        ...

    def remove_if_empty(self, name: str) -> bool:
        """Remove the files of an object that has no blocks; return False if it is in use."""
        ...
