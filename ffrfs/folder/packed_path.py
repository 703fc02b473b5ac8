"""PackedPath: a path of an open pack, which walks and reads as pathlib.Path does.

It has what importlib.resources asks for (Traversable). It is no PathLike: programs that open
paths by themselves would look for it outside the pack.

Not here: reading (packed.py). Concurrency: immutable; that of PackedFolder.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ffrfs.folder.tree import PathType

_ROOT = PurePosixPath("/")


class Folder(Protocol):
    """The methods of PackedFolder that this file uses; its file imports this one."""

    fname: str

    @property
    def open(self) -> Callable[..., Any]: ...
    def __getitem__(self, path: PathType) -> bytes: ...
    def exists(self, path: PathType) -> bool: ...
    def is_file(self, path: PathType) -> bool: ...
    def is_dir(self, path: PathType) -> bool: ...
    def stat(self, path: PathType) -> os.stat_result: ...
    def list(self, path: PathType) -> list[str]: ...
    def glob(self, pattern: PathType) -> Iterator[str]: ...


class PackedPath:
    """`folder / "a" / "b.jpg"`; `path` is "a/b.jpg", as the methods of `folder` take it."""

    __slots__ = ("_path", "folder")

    def __init__(self, folder: Folder, *parts: PathType) -> None:
        self.folder = folder
        self._path = _ROOT.joinpath(*(os.fspath(part).lstrip("/") for part in parts))

    def joinpath(self, *parts: PathType) -> PackedPath:
        return PackedPath(self.folder, self._path, *parts)

    def __truediv__(self, part: PathType) -> PackedPath:
        return self.joinpath(part)

    @property
    def path(self) -> str:
        return str(self._path)[1:]

    @property
    def parent(self) -> PackedPath:
        """The directory that it is in; the root is in itself."""
        return PackedPath(self.folder, self._path.parent)

    @property
    def name(self) -> str:
        return self._path.name

    @property
    def stem(self) -> str:
        return self._path.stem

    @property
    def suffix(self) -> str:
        return self._path.suffix

    @property
    def suffixes(self) -> list[str]:
        return self._path.suffixes

    def exists(self) -> bool:
        return self.folder.exists(self.path)

    def is_file(self) -> bool:
        return self.folder.is_file(self.path)

    def is_dir(self) -> bool:
        return self.folder.is_dir(self.path)

    def stat(self) -> os.stat_result:
        return self.folder.stat(self.path)

    def iterdir(self) -> Iterator[PackedPath]:
        """Yield the entries of the directory. Raises PathNotFoundError, NotAFolderError."""
        return (self / name for name in self.folder.list(self.path))

    def glob(self, pattern: str) -> Iterator[PackedPath]:
        """Yield the matching paths below it, as PackedFolder.glob() does."""
        begin = f"{glob.escape(self.path)}/" if self.path else ""
        return (PackedPath(self.folder, path) for path in self.folder.glob(begin + pattern))

    def rglob(self, pattern: str) -> Iterator[PackedPath]:
        return self.glob(f"**/{pattern}")

    def open(self, mode: str = "r", *args: Any, **options: Any) -> IO[Any]:  # noqa: ANN401
        """Open the file as PackedFolder.open() does, but as text by default, as pathlib does."""
        file: IO[Any] = self.folder.open(self.path, mode, *args, **options)
        return file

    def read_bytes(self) -> bytes:
        """Return the file's bytes. Raises PathNotFoundError, IsAFolderError; ChecksumError."""
        return self.folder[self.path]

    def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
        with self.open("r", encoding=encoding, errors=errors) as file:
            return str(file.read())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PackedPath):
            return NotImplemented
        return (self.folder, self._path) == (other.folder, other._path)

    def __hash__(self) -> int:
        return hash((self.folder, self._path))

    def __reduce__(self) -> tuple[type[PackedPath], tuple[Folder, str]]:
        return PackedPath, (self.folder, self.path)

    def __str__(self) -> str:
        return f"{self.folder.fname}/{self.path}"

    def __repr__(self) -> str:
        return f"PackedPath({self.folder.fname!r}, {self.path!r})"
