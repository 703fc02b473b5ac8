"""What a set of shards holds already, when more are added to it: nothing may stand twice.

Not here: writing shards (pack_set_writer.py).
Concurrency: one thread.
"""

from __future__ import annotations

import os
import stat
from typing import NoReturn

from ffrfs._native import Volume
from ffrfs.errors import PackError
from ffrfs.folder.tree import PackTree


class ExistingSet:
    """The packs `packs` as one tree. Raises what opening them does."""

    def __init__(self, packs: list[str]) -> None:
        self._packs = packs
        self._tree = PackTree(packs)
        self.root = self._tree.folder_ino("")
        part = self._tree.volume.load_directory(self.root, 0)
        assert part is not None  # of FFRecord the whole tree is at hand
        self._part = part

    def shards(self) -> list[tuple[bytes, int, int] | None]:
        """Of each pack: the id of its set, its number, how many it knows of; None: of no set."""
        return [pack.shard for pack in self._tree.volume.packs]

    def enter(self, folder: int, name: bytes, path: str) -> int:
        """Return the inode of directory `name` in directory `folder`; 0: there is none.

        `path` is what would be packed there. Raises PackError if a file or link is there.
        """
        ino = self._part.lookup(folder, name)
        if ino == 0:
            return 0
        attributes = self._part.attributes(ino)
        if attributes is None or not stat.S_ISDIR(attributes.mode):
            self._refuse(ino, path)
        return ino

    def refuse(self, folder: int, name: bytes, path: str) -> None:
        """Raise PackError if there is anything of that name."""
        ino = self._part.lookup(folder, name)
        if ino != 0:
            self._refuse(ino, path)

    def _refuse(self, ino: int, path: str) -> NoReturn:
        there = self._tree.path(ino)
        raise PackError(
            f"{path}: {self._pack_of(there)} has {there!r} already; exclude it, or make a new set"
        )

    def _pack_of(self, path: str) -> str:
        for pack in self._packs:
            # A shard alone lacks all others of its set.
            volume = Volume([os.fsencode(pack)], uid=0, gid=0, allow_missing=True)
            found = volume.resolve(os.fsencode(path)) != 0
            volume.close()
            if found:
                return pack
        return os.path.dirname(self._packs[0])

    def close(self) -> None:
        self._tree.close()
