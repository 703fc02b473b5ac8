"""The plan of packs that are packed again: to filter, to merge, to bring into another order.

Unlike that of a directory it holds the list of all files in memory, some 100 bytes each.

Not here: reading packs (pack_source.py), the plan of a directory (folder_plan.py).
Concurrency: one thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np

from ffrfs.cluster.piece import BLOCK_COUNT, Piece
from ffrfs.cluster.request import Request
from ffrfs.folder.tree import PackTree
from ffrfs.packing.sources.order import number
from ffrfs.packing.sources.pack_source import PackSource
from ffrfs.packing.sources.selection import Selection


class PacksListing:
    """The files of the packs that a request names, in the order of their records, or in `order`.

    Raises PackError, FormatError, ChecksumError, OSError.
    """

    def __init__(self, request: Request) -> None:
        self._packs = request.sources
        symlinks = request.shown_symlinks("packs")
        self._keeps_links = symlinks == "keep"
        self._selection = Selection(request.include, request.exclude)
        order = request.order
        self._source = PackSource(
            request.sources,
            selection=Selection(request.include, request.exclude),
            symlinks=symlinks,
            skip_special=request.skip_special,
        )
        try:
            self._source.share()
            if order is None:
                self._source.number()
            else:
                number(self._source.entries, order)
        except BaseException:
            self._source.close()
            raise
        self.skipped = self._source.skipped

    def pieces(self) -> Iterator[Piece]:
        """Yield what has no record first: links, and empty directories."""
        yield from self._rest()
        entries = self._source.entries
        sizes = entries.sizes()
        for first in range(0, entries.record_count, BLOCK_COUNT):
            owners = entries.files(first, min(BLOCK_COUNT, entries.record_count - first))
            files = self._source.with_same_record(owners)
            paths = [os.fsdecode(path) for path in entries.paths(files)]
            yield from _grouped(paths, sizes[np.array(files)].tolist())

    def _rest(self) -> Iterator[Piece]:
        tree = PackTree(self._packs)
        try:
            links, folders, parents = [], [], {""}
            for entry in tree.entries(tree.folder_ino(""), recursive=True):
                parents.add(entry.path.rpartition("/")[0])
                if entry.is_folder:
                    folders.append(entry.path)
                elif entry.is_link and self._keeps_links:
                    links.append(entry.path)
        finally:
            tree.close()
        for path in filter(self._selection.takes, links):
            above, _, name = path.rpartition("/")
            yield Piece(above, _unknown(above), [], [], [], [], [(name, "", 0)])
        for path in filter(self._selection.takes, folders):
            if path not in parents:
                yield Piece(path, _unknown(path), [], [], [], [])

    def close(self) -> None:
        self._source.close()


def _grouped(paths: Sequence[str], sizes: Sequence[int]) -> Iterator[Piece]:
    """Yield the files that follow each other in one directory."""
    first = 0
    for end in range(1, len(paths) + 1):
        folder = paths[first].rpartition("/")[0]
        if end < len(paths) and paths[end].rpartition("/")[0] == folder:
            continue
        names = [path.rpartition("/")[2] for path in paths[first:end]]
        none = [0] * len(names)
        yield Piece(folder, _unknown(folder), names, sizes[first:end], none, none)
        first = end


def _unknown(folder: str) -> tuple[tuple[int, int], ...]:
    """Permissions and times are taken from the packs, when they are read."""
    return ((0, 0),) * (folder.count("/") + 2 if folder else 1)
