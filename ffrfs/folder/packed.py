"""PackedFolder: the reference's way to read a packed folder, by path.

Not here: the tree (tree.py), verified batches (native core).
Concurrency: may be used from several threads, and in the child of a fork(). Pickling
sends the files' names; the other process opens the files itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

from ffrfs.errors import FormatError
from ffrfs.folder.tree import Entry, OnConflict, PackTree, PathType

if TYPE_CHECKING:
    from ffrfs._native import RecordBytes


class PackedFolder:
    """A packed folder, opened. Paths are relative to the folder: "a/b.png", or a PathLike.

    `ffr_file`: a pack, a folder of packs, or a list of either; several are one tree.
    `on_conflict`: what becomes of a path that two of them have: "error", or the "first" or
    "last" is there. `allow_missing`: packs that cannot be opened, and shards that a set
    lacks, are left out. Links are followed inside the tree; `list()` takes one for what it leads
    to, and does not go into it.

    Raises FormatError if it is no packed folder, or a shard is missing; warns
    (UnverifiedHeaderWarning) if a header carries no checksum, and (PackWarning) of what was
    left aside: a stale or broken index, a missing shard.
    """

    def __init__(
        self,
        ffr_file: PathType | Sequence[PathType],
        check_data: bool = True,
        on_conflict: OnConflict = "error",
        allow_missing: bool = False,
    ) -> None:
        self.check_data = check_data
        self.on_conflict: OnConflict = on_conflict
        self.allow_missing = allow_missing
        self._tree = PackTree(ffr_file, check_data, on_conflict, allow_missing)
        self.fname = self._tree.file
        if not self._tree.volume.is_folder:
            raise FormatError.at(
                self.fname, "is a plain FFRecord file, not a pack (a packed directory)"
            )

    def num_files(self) -> int:
        return self._tree.volume.file_count

    def read(self, fnames: Iterable[PathType]) -> list[RecordBytes]:
        """Return the files' bytes, in that order, as 1-D uint8 arrays that own their memory.

        Raises PathNotFoundError, IsAFolderError; ChecksumError for a damaged file, naming it.
        """
        if isinstance(fnames, str | bytes | os.PathLike):
            raise TypeError("read() takes a list of paths; for one path there is read_one()")
        return self._tree.read_files([self._tree.file_ino(path) for path in fnames])

    def read_one(self, fname: PathType) -> RecordBytes:
        """Return one file's bytes; as read()."""
        return self._tree.read_files([self._tree.file_ino(fname)])[0]

    def list(
        self,
        path: PathType | None = None,
        list_file: bool = True,
        list_dir: bool = True,
        recursive: bool = False,
    ) -> list[str]:
        """Return what the folder `path` (None: all) holds, as paths relative to it.

        In order of the names; if `recursive`, a folder's content follows its name.
        Raises PathNotFoundError, NotAFolderError.
        """
        ino = self._tree.folder_ino("" if path is None else path)
        return [
            entry.path
            for entry in self._tree.entries(ino, recursive)
            if self._is_wanted(path, entry, list_file, list_dir)
        ]

    def _is_wanted(
        self, folder: PathType | None, entry: Entry, list_file: bool, list_dir: bool
    ) -> bool:
        if entry.is_link:
            path = os.path.join(folder or "", entry.path)
            return (list_file and self.is_file(path)) or (list_dir and self.is_dir(path))
        return list_dir if entry.is_folder else list_file

    def exists(self, path: PathType) -> bool:
        return self._tree.find(path, follow_links=True) != 0

    def is_file(self, path: PathType) -> bool:
        """Tell whether `path` is there and a file."""
        attributes = self._tree.volume.attributes(self._tree.find(path, follow_links=True))
        return attributes is not None and not stat.S_ISDIR(attributes.mode)

    def is_dir(self, path: PathType) -> bool:
        """Tell whether `path` is there and a folder."""
        attributes = self._tree.volume.attributes(self._tree.find(path, follow_links=True))
        return attributes is not None and stat.S_ISDIR(attributes.mode)

    def close(self) -> None:
        """Close the file. Reading afterwards raises ValueError."""
        self._tree.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[PackedFolder], tuple[Any, ...]]:
        return type(self), (
            self._tree.packs,
            self.check_data,
            self.on_conflict,
            self.allow_missing,
        )

    def __repr__(self) -> str:
        return f"PackedFolder({self.fname!r})"
