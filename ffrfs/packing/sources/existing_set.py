"""The content of a set to which shards are added: no path may occur twice.

Not here: writing shards (ffrfs/packing/places.py).
Concurrency: one thread.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from typing import NoReturn, TypeAlias

from ffrfs._native import EntryList, Pack, Volume, folder_files
from ffrfs.errors import FormatError, PackError
from ffrfs.files.closing import Closing
from ffrfs.folder.tree import PackTree
from ffrfs.packing.sources.contents import ADVICE, Contents
from ffrfs.printable import quoted
from ffrfs.remote.paths import let_urls_in
from ffrfs.remote.url import is_url

# (16 bytes that all shards of a set have, number of this one, how many there are)
ShardOf: TypeAlias = tuple[bytes, int, int]

# The rows of so many records are Python objects at a time.
_BATCH_COUNT = 4096


class ExistingTree(Closing):
    """The packs `tree`, to which paths will be added; it is closed with this object.

    `replaces`: a file or link may take the place of another, which is noted in `replaced`.
    """

    advice = ADVICE  # about what cannot be added

    def __init__(self, tree: PackTree, advice: str, *, replaces: bool = False) -> None:
        self.tree = tree
        self.packs = [os.fsdecode(path) for path in tree.volume.paths]
        self.replaced: list[str] = []  # paths
        self._advice = advice
        self._replaces = replaces
        self.root = tree.folder_ino("")
        part = tree.volume.load_directory(self.root, 0)
        assert part is not None  # the whole tree of FFRecord files is loaded
        self._part = part

    def refuse_listed(self, contents: Contents) -> None:
        """Raise PackError if a path of `contents`, which are numbered, exists and must stay."""
        listed = contents.entries
        count = listed.record_count
        for first in range(0, max(count, 1), _BATCH_COUNT):
            rows = listed.rows(first, min(_BATCH_COUNT, count - first))
            for folder, found in groupby(rows, itemgetter(1)):
                names = [name.decode() for _, _, name, *_ in found if name]
                self.refuse_all(_path_of(listed, folder), names, contents.shown)

    def refuse_all(
        self, folder: str, names: Iterable[str], shown: Callable[[str], str] = str
    ) -> None:
        """Raise PackError if one of these names exists in the directory and must stay.

        `shown`: how an error names the path that would be packed there.
        """
        number = self.root
        path = ""
        for step in folder.split("/") if folder else ():
            path = f"{path}/{step}" if path else step
            number = self._part.lookup(number, step.encode())
            if number == 0:
                return
            if not self._is_folder(number):
                self._refuse(number, shown(path))
        for name in names:
            ino = self._part.lookup(number, name.encode())
            if ino == 0:
                continue
            if not self._replaces or self._is_folder(ino):
                self._refuse(ino, shown(f"{path}/{name}" if path else name))
            self.replaced.append(self.tree.path(ino))

    def _is_folder(self, ino: int) -> bool:
        attributes = self._part.attributes(ino)
        return attributes is not None and stat.S_ISDIR(attributes.mode)

    def _refuse(self, ino: int, path: str) -> NoReturn:
        there = self.tree.path(ino)
        raise PackError(
            f"{path}: {self._pack_of(there)} has {quoted(there)} already; {self._advice}"
        )

    def _pack_of(self, path: str) -> str:
        return next(iter(packs_with(self.packs, [path])), os.path.dirname(self.packs[0]))

    def close(self) -> None:
        self.tree.close()


class ExistingSet(ExistingTree):
    """The packs in the directory `folder`, also at a URL, as one tree: set `id`, of `count` shards.

    Raises PackError if there is no set, or some shards are missing; and the errors of opening them.
    """

    def __init__(self, folder: str) -> None:
        packs = packs_in(folder)
        try:
            tree = PackTree(packs)
        except FormatError:  # its message is less clear about missing shards
            identity_of(packs)
            raise
        try:
            super().__init__(tree, "exclude it, or make a new set")
            shards = (pack.shard for pack in tree.volume.packs)
            self.id, self.count = identity_of(self.packs, shards)
        except BaseException:
            tree.close()
            raise


def _path_of(listed: EntryList, folder: int) -> str:
    names: list[str] = []
    while folder:
        folder, name, *_ = listed.folder(folder)
        names.append(name.decode())
    return "/".join(reversed(names))


def packs_with(packs: Sequence[str], paths: Sequence[str]) -> Iterator[str]:
    """Yield each of the packs that has one of the paths."""
    names = [os.fsencode(path) for path in paths]
    for pack in packs:
        # One shard alone lacks all other shards of its set.
        with closing(Volume([os.fsencode(pack)], uid=0, gid=0, allow_missing=True)) as volume:
            has_one = any(volume.resolve(name) for name in names)
        if has_one:
            yield pack


def packs_in(folder: str) -> list[str]:
    """Return the packs of the set in `folder`, also at a URL. Raises PackError: it has none."""
    let_urls_in([folder])
    place = f"{folder.rstrip('/')}/" if is_url(folder) else folder
    packs = [os.fsdecode(pack) for pack in folder_files(os.fsencode(place))[0]]
    if not packs:
        raise PackError(
            f"{folder}: holds no packs to add to; make the set first: ffrfs pack --shards N SRC "
            f"{folder}"
        )
    return packs


def identity_of(
    packs: Sequence[str], shards: Iterable[ShardOf | None] | None = None
) -> tuple[bytes, int]:
    """Return the id of the set of `packs`, and its number of shards.

    `shards`: the entry of each pack (None: read them). Raises PackError if the packs are no set,
    or some are missing.
    """
    if shards is None:
        shards = [Pack(os.fsencode(pack)).shard for pack in packs]
    numbers = []
    ids = set()
    for pack, shard in zip(packs, shards, strict=True):
        if shard is None:
            raise PackError(
                f"{pack}: is not a shard of a pack set; packs are added to pack sets only"
            )
        ids.add(shard[0])
        numbers.append(shard[1])
        if len(ids) > 1:
            raise PackError(f"{pack}: belongs to another set than {packs[0]}; keep them apart")
    missing = sorted(set(range(len(packs))).difference(numbers))
    if missing:
        raise PackError(
            f"{os.path.dirname(packs[0])}: shard {missing[0]} of the set is missing; restore it"
        )
    return ids.pop(), len(packs)
