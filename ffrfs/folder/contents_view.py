"""Files of a pack with their bytes, one after the other: PackedFolder's items() and values().

Small files are read in batches, so going through a whole pack is as fast as read(). Memory
is bounded by a batch, or by one larger file.

Not here: the order of the files (packed.py). Concurrency: that of PackedFolder.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING

from ffrfs.files.batches import in_batches
from ffrfs.folder.tree import Entry

if TYPE_CHECKING:
    from ffrfs.folder.tree import PackTree

_BATCH_SIZE = 16 << 20
_BATCH_COUNT = 1024

Contents = Callable[[], Iterator[tuple[str, bytes]]]


class FileItems(ItemsView[str, bytes]):
    """The items (path, bytes) of the files of `folder`, from `contents`."""

    def __init__(self, folder: Mapping[str, bytes], contents: Contents) -> None:
        super().__init__(folder)
        self._contents = contents

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        return self._contents()


class FileValues(ValuesView[bytes]):
    """The bytes of each file, from the items of the folder."""

    _mapping: Mapping[str, bytes]  # the folder, which the base class keeps

    def __iter__(self) -> Iterator[bytes]:
        return (data for _, data in self._mapping.items())


def contents_of(tree: PackTree, files: Iterator[Entry]) -> Iterator[tuple[str, bytes]]:
    """Yield each of `files` with its bytes. Raises ChecksumError naming the path."""
    for batch in in_batches(files, lambda file: file.attributes.size, _BATCH_SIZE, _BATCH_COUNT):
        arrays = tree.read_files([file.attributes.ino for file in batch])
        arrays.reverse()
        for file in batch:
            yield file.path, arrays.pop().tobytes()
