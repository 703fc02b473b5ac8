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

from ffrfs.cache.state_file import StateFile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DISK_BLOCK = 512  # unit of st_blocks, on every file system


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

    def is_empty(self) -> bool:
        return not any(map(len, self.present()))

    def is_there(self, block: int) -> bool:
        return self.state.number(block) != 0 if self.is_current else self.state.is_durable(block)

    def allocated(self) -> int:
        return DISK_BLOCK * (os.fstat(self.data).st_blocks + os.fstat(self.state.fd).st_blocks)


class Objects(Protocol):
    """The objects of a cache."""

    def names(self) -> list[str]: ...

    def opened(self, name: str) -> AbstractContextManager[Files | None]:
        """Yield the object's files, or None if it was removed, or cannot be used."""
        ...

    def remove_if_empty(self, name: str) -> bool:
        """Remove the files of an object that has no blocks; return False if it is in use."""
        ...
