"""The plan of sources that one process must list as a whole, in memory: packs, and directories
with `files`, `dedup` or an `order`.

Not here: listing (ffrfs.packing.sources), the plan of a directory (folder_plan.py).
Concurrency: one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ffrfs.cluster.piece import BLOCK_COUNT, Piece, link_text
from ffrfs.packing.sources.contents import Contents

if TYPE_CHECKING:
    from ffrfs._native import _EntryRow

_FOLDERS_KEPT = 1024


class _Group(NamedTuple):
    """The common part of the rows of a piece."""

    block: int
    folder: int
    is_rest: bool  # links, or an empty directory
    origin: str


class MemoryListing:
    """The files of `contents`, whose records are numbered."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._entries = contents.entries
        self._folder = lru_cache(_FOLDERS_KEPT)(self._described)
        self.skipped = contents.skipped

    def close(self) -> None:
        self._contents.close()

    def pieces(self) -> Iterator[Piece]:
        """Yield the files in the order of their records, after each those that share it."""
        if not (self._entries.file_count or self._entries.link_count or self._entries.folder_count):
            yield Piece(*self._folder(0), [], [], [], [])
        for group, rows in groupby(self._rows(), lambda one: one[0]):
            path, above = self._folder(group.folder)
            columns = zip(*(row for _, row in rows), strict=True)
            _, _, names, sizes, modes, times, targets = map(list, columns)
            texts = [name.decode() for name in names if name]
            if group.is_rest:
                links = zip(texts, map(link_text, targets), times, strict=False)
                yield Piece(path, above, [], [], [], [], [*links])
            else:
                yield Piece(path, above, texts, sizes, modes, times, origin=group.origin)

    def _rows(self) -> Iterator[tuple[_Group, _EntryRow]]:
        count = self._entries.record_count
        for first in range(0, max(count, 1), BLOCK_COUNT):
            own: _EntryRow | None = None  # the file that has the record
            for row in self._entries.rows(first, min(BLOCK_COUNT, count - first)):
                origin = ""
                is_rest = not row[2] or bool(row[6])
                if own is not None and own[0] == row[0] and not is_rest:
                    origin = self._path(own)
                elif not is_rest:
                    own = row
                yield _Group(first, row[1], is_rest, origin), row

    def _path(self, row: _EntryRow) -> str:
        folder, _ = self._folder(row[1])
        return f"{folder}/{row[2].decode()}" if folder else row[2].decode()

    def _described(self, number: int) -> tuple[str, tuple[tuple[int, int], ...]]:
        """Return the path of a directory, and permissions and times of the directories above it."""
        names: list[str] = []
        above: list[tuple[int, int]] = []
        while True:
            parent, name, mode, mtime_ns = self._entries.folder(number)
            above.append((mode, mtime_ns))
            if number == 0:
                return "/".join(reversed(names)), tuple(reversed(above))
            names.append(name.decode())
            number = parent
