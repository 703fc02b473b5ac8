"""PackFileStore: the files of a pack as a file store of Megatron-Energon, for auxiliary media.

    store = PackFileStore("/data/x.ffr")
    picture = store.get("cat/1.jpg", sample)

Not here: reading and verifying (ffrfs.folder), decoding (Energon's DecodeFileStore).
Concurrency: that of PackedFolder; pickling sends the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from ffrfs.errors import MissingPackageError
from ffrfs.folder.packed import PackedFolder
from ffrfs.folder.tree import PathType
from ffrfs.remote.named_store import StoreKeywords
from ffrfs.remote.url import is_url

with MissingPackageError.instead("megatron", "ffrfs.energon needs megatron-energon", "energon"):
    from megatron.energon import FileStore, SourceInfo
    from megatron.energon.epathlib import EPath

__all__ = ["PackFileStore"]


class PackFileStore(FileStore):  # type: ignore[misc]
    """`pack`, `store`: as for PackedFolder; keys are paths in it.

    Raises PathNotFoundError and IsAFolderError, which are KeyErrors, and ChecksumError.
    """

    def __init__(self, pack: PathType | Sequence[PathType], **store: Unpack[StoreKeywords]) -> None:
        self._folder = PackedFolder(pack, **store)

    def __getitem__(self, key: str) -> tuple[bytes, SourceInfo]:
        path = self._folder.fname
        # EPath takes a URL of ours for a relative path, or fails.
        place = path if is_url(path) else EPath(path)
        source = SourceInfo(dataset_path=place, index=key, shard_name=path, file_names=(key,))
        return self._folder[key], source

    def get_path(self) -> str:
        return str(self._folder.fname)

    def __str__(self) -> str:
        return f"PackFileStore({self._folder.fname})"
