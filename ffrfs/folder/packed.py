"""PackedFolder: a pack by path: the reference's methods, a mapping, and open files.

Not here: the tree (tree.py), file objects (packed_file.py), patterns (path_pattern.py),
verified batches (native core).
Concurrency: several threads may use it, and so may the child of a fork(). Pickling
sends the files' names; the other process opens the files itself.
"""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias, Unpack, cast, overload

from ffrfs.errors import FormatError
from ffrfs.files.closing import Closing
from ffrfs.folder.contents_view import FileItems, FileValues, contents_of
from ffrfs.folder.tree import Entry, OnConflict, PackTree, PathType
from ffrfs.record.reader import FileReader
from ffrfs.remote.named_store import StoreKeywords, in_store
from ffrfs.remote.paths import absolute

if TYPE_CHECKING:
    import io

    from ffrfs._native import Attributes, RecordBytes
    from ffrfs.folder.packed_path import PackedPath


# A directory's path, and the names of the directories and of the files in it.
Walked: TypeAlias = "tuple[str, list[str], list[str]]"
# {name: record number, or the same for a directory}
Structure: TypeAlias = "OrderedDict[str, int | Structure]"


class PackedFolder(Closing, Mapping[str, bytes]):
    """An open pack. Paths begin at its root: "a/b.png", or a PathLike.

    It is a mapping from the paths of all files, in the order of the tree, to their bytes:
    `len(folder)`, `"a/b.png" in folder`, `for path in folder`, `folder["a/b.png"]`, `items()`.
    Two of them are equal only if they are the same object.

    `ffr_file`: a pack, a directory of packs, or a list of either; several are one tree.
    `on_conflict`: the rule for a path that two of them have: "error", or the "first" or
    "last" one is used. `allow_missing`: packs that cannot be opened, and missing shards of a
    set, are left out. `store`: where URLs are, if not where the environment says
    (`endpoint_url=`, `region=`, `anonymous=`, `storage_options=`). Links are followed inside the
    tree; `list()` shows a link as its target, but does not enter it; the same holds for iterating,
    `walk()` and `**` of `glob()`.

    Raises FormatError if it is no pack, or a shard is missing; warns
    (UnverifiedHeaderWarning) if a header has no checksum, and (PackWarning) of parts that are
    ignored: a stale or broken index, a missing shard.
    """

    def __init__(
        self,
        ffr_file: PathType | Sequence[PathType],
        check_data: bool = True,
        on_conflict: OnConflict = "error",
        allow_missing: bool = False,
        **store: Unpack[StoreKeywords],
    ) -> None:
        self.check_data = check_data
        self.on_conflict: OnConflict = on_conflict
        self.allow_missing = allow_missing
        self._tree = PackTree(in_store(ffr_file, store), check_data, on_conflict, allow_missing)
        self._count: int | None = None  # of the files and links; None: not counted yet
        self.fname = self._tree.file
        # The program may have another working directory when the records are opened, or copied.
        self._places = [absolute(pack) for pack in self._tree.packs]
        self._files_of_records = [absolute(os.fsdecode(path)) for path in self._tree.volume.paths]
        if not self._tree.volume.is_folder:
            kind = "TFRecord" if self._tree.volume.is_examples else "a plain FFRecord file"
            raise FormatError.at(self.fname, f"is {kind}, not a pack (a packed directory)")

    def __truediv__(self, path: PathType) -> PackedPath:
        """Return the path as an object that walks and reads as pathlib.Path does."""
        from ffrfs.folder.packed_path import PackedPath

        return PackedPath(self, path)

    def num_files(self) -> int:
        """Return how many files are stored: no links, but also files hidden by a conflict."""
        return self._tree.volume.file_count

    def __len__(self) -> int:
        """Return how many paths iterating yields; with several packs or links, it walks once."""
        if self._count is None:
            self._count = self._tree.plain_file_count()
        if self._count is None:
            self._count = sum(1 for _ in self._files())
        return self._count

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def __iter__(self) -> Iterator[str]:
        """Yield the paths of all files, and links to files, in constant memory."""
        return (file.path for file in self._files())

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str | os.PathLike) and self.is_file(path)

    def __getitem__(self, path: PathType) -> bytes:
        """Return one file's bytes. Raises PathNotFoundError, IsAFolderError: both KeyErrors."""
        return self._tree.read_whole(self._tree.file_ino(path))

    def items(self) -> FileItems:
        """Return (path, bytes) of each file, read in batches; ends at an error: ChecksumError."""
        return FileItems(self, lambda: contents_of(self._tree, self._files()))

    def values(self) -> FileValues:
        """Return the bytes of each file, as items() does."""
        return FileValues(self)

    # Mappings compare their contents, which would read all bytes of both.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def _files(self) -> Iterator[Entry]:
        for entry, _ in self._tree.followed("", self._tree.folder_ino(""), recursive=True):
            if not entry.is_folder:
                yield entry

    @cached_property
    def reader(self) -> FileReader:
        """The records of the pack, or of all packs: the files' bytes by number.

        It is opened by name at the first use, and closed by close().
        """
        return FileReader(self._tree.to_open(self._files_of_records), self.check_data)

    @cached_property
    def structure(self) -> Structure:
        """The tree as nested OrderedDicts: a directory is one, a file its number in `reader`.

        It is made of the whole tree at the first use, whichever index that comes from, and kept:
        no pickle is loaded. Symbolic links of the pack are left out.
        """
        root: Structure = OrderedDict()
        for entry in self._tree.entries(self._tree.folder_ino(""), recursive=True):
            *parents, name = entry.path.split("/")
            folder = root
            for parent in parents:
                folder = cast(Structure, folder[parent])
            if entry.is_folder:
                folder[name] = OrderedDict()
            elif not entry.is_link:
                record = self._tree.volume.record(entry.attributes.ino)
                assert record is not None
                folder[name] = record[0]
        return root

    @overload
    def read(self, fnames: PathType) -> RecordBytes: ...  # type: ignore[overload-overlap] # str
    @overload
    def read(self, fnames: Iterable[PathType]) -> list[RecordBytes]: ...
    def read(self, fnames: PathType | Iterable[PathType]) -> RecordBytes | list[RecordBytes]:
        """Return the files' bytes, in that order, as 1-D uint8 arrays that own their memory.

        For a single path, instead of a list, return its bytes. Raises PathNotFoundError,
        IsAFolderError; ChecksumError for a damaged file, naming it.
        """
        if isinstance(fnames, str | os.PathLike):
            return self.read_one(fnames)
        if isinstance(fnames, bytes):
            raise TypeError("read() takes a list of paths, or one path, as str or PathLike")
        return self._tree.read_files([self._tree.file_ino(path) for path in fnames])

    def read_one(self, fname: PathType) -> RecordBytes:
        """Return one file's bytes as read() does."""
        return self._tree.read_files([self._tree.file_ino(fname)])[0]

    def list(
        self,
        path: PathType | None = None,
        list_file: bool = True,
        list_dir: bool = True,
        recursive: bool = False,
    ) -> list[str]:
        """Return the contents of the directory `path` (None: all), as paths relative to it.

        They are in order of the names; if `recursive`, a directory's content follows its name.
        Raises PathNotFoundError, NotAFolderError.
        """
        folder = "" if path is None else os.fspath(path)
        found = self._tree.followed(folder, self._tree.folder_ino(folder), recursive)
        return [entry.path for entry, _ in found if (list_dir if entry.is_folder else list_file)]

    def exists(self, path: PathType) -> bool:
        return self._tree.find(path, follow_links=True) != 0

    def is_file(self, path: PathType) -> bool:
        """Return whether `path` exists and is a file."""
        attributes = self._tree.target_attributes(path)
        return attributes is not None and not stat.S_ISDIR(attributes.mode)

    def is_dir(self, path: PathType) -> bool:
        """Return whether `path` exists and is a directory."""
        attributes = self._tree.target_attributes(path)
        return attributes is not None and stat.S_ISDIR(attributes.mode)

    def stat(self, path: PathType) -> os.stat_result:
        """Return the result of os.stat() for it in a mount. Raises PathNotFoundError."""
        return _stat_result(self._tree.attributes(path, follow_links=True))

    def walk(self, top: PathType = "") -> Iterator[Walked]:
        """Walk through `top` and all directories below it, as os.walk() does, from the top down.

        Yields (path, names of directories, names of files), in order of the names. Names that
        the caller removes from the list of directories are not entered. Raises
        PathNotFoundError, NotAFolderError.
        """
        ino = self._tree.folder_ino(top)
        self._tree.check_depth(ino)
        return self._walk(os.fspath(top), ino)

    def _walk(self, top: str, ino: int) -> Iterator[Walked]:
        left = [(top, ino)]
        while left:
            path, ino = left.pop()
            folders: list[str] = []
            files: list[str] = []
            inos: dict[str, int] = {}  # of the directories, without links to directories
            for entry, is_link in self._tree.followed(path, ino):
                (folders if entry.is_folder else files).append(entry.path)
                if entry.is_folder and not is_link:
                    inos[entry.path] = entry.attributes.ino
            yield path, folders, files
            below = [name for name in reversed(folders) if name in inos]
            left += [(os.path.join(path, name), inos[name]) for name in below]

    def glob(self, pattern: PathType) -> Iterator[str]:
        """Yield the paths that match `pattern`, in the order of the tree, each once.

        It works as pathlib.Path.glob(): "*", "?" and "[…]" match within a name, "**" any number
        of directories; "train/*/*.jpg" reads no directory outside "train". With a slash at its
        end it matches directories only. Raises ValueError for an empty pattern.
        """
        from ffrfs.folder.path_pattern import matching

        return matching(self._tree, pattern)

    @overload
    def open(
        self, path: PathType, mode: Literal["rb", "br"] = "rb", buffering: Literal[-1] = -1
    ) -> io.BufferedReader: ...
    @overload
    def open(
        self,
        path: PathType,
        mode: Literal["r", "rt", "tr"],
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> io.TextIOWrapper: ...
    @overload
    def open(
        self,
        path: PathType,
        mode: str = "rb",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]: ...
    def open(  # noqa: PLR0913, PLR0917 - the parameters of the built-in open()
        self,
        path: PathType,
        mode: str = "rb",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> Any:
        """Open a file for reading, as the built-in open() does, but as bytes by default.

        A large file is read and verified in parts, not as a whole. `mode`: "rb", or
        "r" for text. A damaged part raises ChecksumError when it is read; reading after the
        folder was closed raises ValueError. Raises PathNotFoundError, IsAFolderError, and
        io.UnsupportedOperation for a mode that writes.
        """
        from ffrfs.folder.packed_file import open_packed

        return open_packed(self._tree, path, mode, buffering, encoding, errors, newline)

    def close(self) -> None:
        """Close the pack. Reading afterwards raises ValueError."""
        self._tree.close()
        if "reader" in self.__dict__:
            self.reader.close()

    def __reduce__(self) -> tuple[type[PackedFolder], tuple[Any, ...]]:
        return type(self), (
            self._places,
            self.check_data,
            self.on_conflict,
            self.allow_missing,
        )

    def __repr__(self) -> str:
        return f"PackedFolder({self.fname!r})"


def files_below(folder: PackedFolder, root: str) -> list[str]:
    """Return the paths, in the pack, of the files below `root`, however `root` is spelled."""
    begin = str(PurePosixPath("/", root)).strip("/")
    found = folder.list(root, list_dir=False, recursive=True)
    return [f"{begin}/{path}" for path in found] if begin else found


def _stat_result(attributes: Attributes) -> os.stat_result:
    seconds, time_ns = attributes.mtime_ns // 10**9, attributes.mtime_ns
    numbers = (
        attributes.mode,
        attributes.ino,
        0,  # the device
        attributes.nlink,
        attributes.uid,
        attributes.gid,
        attributes.size,
        *(seconds,) * 3,
    )
    names = ("st_atime", "st_mtime", "st_ctime")
    times: dict[str, float] = dict.fromkeys(names, time_ns / 10**9)
    times |= {f"{name}_ns": time_ns for name in names}
    return os.stat_result(numbers, times)
