"""PackSource: the files of a pack as a data source of grain.

    grain.MapDataset.source(PackSource("/data/x.ffr", root="train")).shuffle(seed=0).batch(32)

grain knows data sources by their methods, so this needs no grain.

Not here: reading and verifying (ffrfs.folder).
Concurrency: that of PackedFolder; pickling sends the arguments.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex, TypedDict, Unpack

from ffrfs.adapters.bad_samples import BadSamples, OnError
from ffrfs.folder.packed import PackedFolder, files_below
from ffrfs.folder.tree import PathType
from ffrfs.remote.named_store import StoreKeywords

__all__ = ["PackFile", "PackSource"]


class PackFile(TypedDict):
    path: str  # in the pack
    data: bytes


class PackSource:
    """The files below `root`, in the order of the pack, as dicts of path and bytes.

    `pack`, `store`: as for PackedFolder. `on_error` "skip": a damaged file is None, which grain's
    MapDataset leaves out when it becomes an IterDataset; a function of the error and the path
    returns what takes its place. Its text is the same in each process, as grain's
    checkpoints need. Raises PathNotFoundError, NotAFolderError for `root`; IndexError; and
    ChecksumError, which names the file.
    """

    def __init__(
        self,
        pack: PathType | Sequence[PathType],
        root: str = "",
        *,
        on_error: OnError = "raise",
        **store: Unpack[StoreKeywords],
    ) -> None:
        self.bad_samples = BadSamples(on_error)
        self._folder = PackedFolder(pack, **store)
        self._root = root.strip("/")
        self._paths = files_below(self._folder, root)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: SupportsIndex) -> Any:  # noqa: ANN401 - on_error may choose it
        return self._getitems([index])[0]

    def _getitems(self, indices: Sequence[SupportsIndex]) -> list[Any]:
        """Return several files, which are read as one verified batch. grain calls it."""
        paths = [self._paths[operator.index(index)] for index in indices]
        found = self.bad_samples.take(paths, self._read)
        return [
            next(iter(self.bad_samples.settle([path], [item], str)), None)
            for path, item in zip(paths, found, strict=True)
        ]

    def _read(self, paths: Sequence[str]) -> list[PackFile]:
        found = zip(paths, self._folder.read(paths), strict=True)
        return [{"path": path, "data": data.tobytes()} for path, data in found]

    def __repr__(self) -> str:
        return f"PackSource({self._folder.fname!r}, root={self._root!r})"
