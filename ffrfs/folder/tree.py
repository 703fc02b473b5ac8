"""PackTree: names, attributes and bytes of packed files, by path.

It has the files and directories of a pack, or of several as one tree; a plain FFRecord file
shows one file per record. PackedFolder and the commands that read are built on it.

Not here: reading, verifying and uniting (native core), following links (links.py), the
reference's API (packed.py).
Concurrency: immutable; any thread, and the child of a fork().
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from ffrfs._native import Volume, record_files
from ffrfs.errors import (
    ChecksumError,
    FormatError,
    IsAFolderError,
    NotAFolderError,
    PackWarning,
    PathNotFoundError,
    UnverifiedHeaderWarning,
    text_within,
    warn,
)
from ffrfs.files.closing import Closing
from ffrfs.folder.links import follow
from ffrfs.printable import quoted, shown_name
from ffrfs.remote.named_store import kept_in_store
from ffrfs.remote.paths import is_folder, let_urls_in
from ffrfs.remote.url import is_url

if TYPE_CHECKING:
    from ffrfs._native import Attributes, RecordBytes, Slice

PathType = str | os.PathLike[str]
OnConflict: TypeAlias = Literal["error", "first", "last"]
DamagedFolder: TypeAlias = Callable[[ChecksumError], object]

_DEPTH_LIMIT = 1024  # nested directories: our writers keep to it, others need not
_SHOWN_SIZE = 100  # characters of a longer path that messages show
_LIST_COUNT = 4096  # entries requested from the core at a time
_PIECE_SIZE = 4 << 20  # bytes of a large file read at a time
_MADE_SIZE = 32 << 20  # the same for a rendered file: each piece takes a pass over its record


class Entry(NamedTuple):
    path: str  # relative to the listed directory
    attributes: Attributes

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.attributes.mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.attributes.mode)


class PackTree(Closing):
    """The tree of `pack`: a file, a directory of packs, or a list of either, as one tree.

    Each may be a URL; the URL of a directory ends in "/".

    `on_conflict`: the rule for a path that two packs have: an error that names both, or
    the first or last pack's is used. `allow_missing`: packs that cannot be opened, and
    missing shards of a set, are left out. `show_splits`: each split of a TFDS directory is a
    directory; else all its records are in one, as for any directory of TFRecord files. Warns
    (UnverifiedHeaderWarning, PackWarning) of parts that are not verified or ignored. Raises
    FormatError, ChecksumError (for an index) or OSError for a bad pack, or a missing shard.
    """

    def __init__(
        self,
        pack: PathType | Sequence[PathType],
        check_data: bool = True,
        on_conflict: OnConflict = "error",
        allow_missing: bool = False,
        show_splits: bool = True,
    ) -> None:
        packs = [pack] if isinstance(pack, str | os.PathLike) else pack
        self.packs = [os.fspath(one) for one in packs]
        if not self.packs:
            raise ValueError("needs at least one pack")
        let_urls_in(self.packs)
        files, options, left_out = self._files(allow_missing, show_splits)
        self.volume = Volume(
            [os.fsencode(one) for one in files],
            uid=os.getuid(),
            gid=os.getgid(),
            check_data=check_data,
            on_conflict=on_conflict,
            allow_missing=allow_missing,
            **options,
        )
        for file in self.volume.unverified_paths:
            warn(UnverifiedHeaderWarning.of(os.fsdecode(file)), stacklevel=3)
        for text in (*left_out, *self.volume.warnings):
            warn(PackWarning(text), stacklevel=3)

    def _files(
        self, allow_missing: bool, show_splits: bool
    ) -> tuple[list[str], dict[str, Any], list[str]]:
        """Return the files for Volume, its options for splits, and warnings of omissions."""
        pack, *others = self.packs
        if is_url(pack):
            return self.packs, {}, []
        is_folder = os.path.isdir(pack)
        if others or (is_folder and not show_splits) or (not is_folder and os.path.lexists(pack)):
            return self.packs, {}, []
        from ffrfs.tfrecord.shown_splits import shown_splits

        shown = shown_splits(pack, allow_missing)
        if shown is None:
            return self.packs, {}, []
        return shown.files, {"splits": shown.option}, shown.warnings

    @property
    def file(self) -> str:
        """The name of the packs in messages; a URL is shown without its query."""
        first, *others = map(shown_name, self.packs)
        return f"{first} and {len(others):,} more" if others else first

    def to_open(self, files: Sequence[str]) -> list[str]:
        """Return paths of `volume.paths` as others open them: URLs with their store and query."""
        if not any(map(is_url, files)):
            return list(files)
        groups = (pack_files(pack) if is_folder(pack) else [pack] for pack in self.packs)
        whole = {shown_name(file): kept_in_store(file) for group in groups for file in group}
        return [whole.get(file, file) for file in files]

    def find(self, path: PathType, follow_links: bool = False) -> int:
        """Return the inode of "a/b", or 0.

        A path begins at the root: "/a/b" and "./a/b" are the same, and "" and "/" are the root.
        As in pathlib, "." and doubled or trailing slashes do not count; ".." does not exist.
        `follow_links`: return the target inside the pack; otherwise links are links, and nothing
        is below them.
        """
        try:
            name = os.fsencode(path).lstrip(b"/")
        except UnicodeEncodeError:
            return 0
        return follow(self.volume, name) if follow_links else self.volume.resolve(name)

    def attributes(self, path: PathType, follow_links: bool = False) -> Attributes:
        """Return the attributes of `path`. Raises PathNotFoundError."""
        attributes = self.volume.attributes(self.find(path, follow_links))
        if attributes is None:
            raise PathNotFoundError(f"{self.file}: has no {_quoted(path)}")
        return attributes

    def target_attributes(self, path: PathType) -> Attributes | None:
        """Return the attributes of `path`, with links followed; None if it does not exist."""
        return self.volume.attributes(self.find(path, follow_links=True))

    def file_ino(self, path: PathType) -> int:
        """Return a file's inode, with links followed. Raises PathNotFoundError, IsAFolderError."""
        attributes = self.attributes(path, follow_links=True)
        if stat.S_ISDIR(attributes.mode):
            raise IsAFolderError(f"{self.file}: {_quoted(path)} is a directory, not a file")
        return attributes.ino

    def folder_ino(self, path: PathType) -> int:
        """Return a directory's inode. Raises PathNotFoundError, NotAFolderError."""
        attributes = self.attributes(path, follow_links=True)
        if not stat.S_ISDIR(attributes.mode):
            raise NotAFolderError(f"{self.file}: {_quoted(path)} is a file, not a directory")
        return attributes.ino

    def entries(
        self, ino: int, recursive: bool = False, damaged: DamagedFolder | None = None
    ) -> Iterator[Entry]:
        """Yield a directory's contents, in order of the names; if `recursive`, depth first.

        A directory comes before its content. `damaged` is called with the error of a directory
        that a damaged record holds (in TFRecord only), and all other entries are yielded;
        without it, the error is raised. First raises the FormatError of check_depth().
        """
        if recursive:
            self.check_depth(ino)
        stack = [("", self._children(ino, damaged))]
        while stack:
            prefix, children = stack[-1]
            for name, attributes in children:
                entry = Entry(prefix + os.fsdecode(name), attributes)
                yield entry
                if recursive and entry.is_folder:
                    if len(stack) > _DEPTH_LIMIT:
                        raise self._too_deep(entry.path)
                    stack.append((f"{entry.path}/", self._children(attributes.ino, damaged)))
                    break
            else:
                stack.pop()

    def followed(
        self, folder: str, ino: int, recursive: bool = False
    ) -> Iterator[tuple[Entry, bool]]:
        """Yield what entries() gives for the directory `folder`, and whether it was a link.

        Then it has the attributes of its target; one to nothing is left out, and none is entered.
        """
        for entry in self.entries(ino, recursive):
            if not entry.is_link:
                yield entry, False
                continue
            target = self.target_attributes(os.path.join(folder, entry.path))
            if target is not None:
                yield Entry(entry.path, target), True

    def plain_file_count(self) -> int | None:
        """Return the number of paths of files; None if only a walk can tell."""
        volume = self.volume
        if len(volume.paths) > 1:  # a path of one may hide that of another
            return None
        # Inodes are numbered 1, 2, 3…: without links, files and directories use all numbers up to
        # their sum.
        beyond = volume.file_count + volume.directory_count + 1
        return volume.file_count if volume.attributes(beyond) is None else None

    def check_depth(self, ino: int) -> None:
        """Raise FormatError if directories below this one are deeper than any writer makes them.

        For walks through all of it: the paths alone would take gigabytes.
        """
        if self.volume.is_folder and (deep := self.volume.find_too_deep(ino)):
            raise self._too_deep(self.path(deep))

    def _too_deep(self, path: str) -> FormatError:
        shown = _quoted(path[:_SHOWN_SIZE])
        return FormatError.at(
            self.file, f"bad index: {shown}… is deeper than {_DEPTH_LIMIT} directories"
        )

    def _children(
        self, ino: int, damaged: DamagedFolder | None
    ) -> Iterator[tuple[bytes, Attributes]]:
        start = 0
        try:
            while batch := self.volume.list(ino, start, _LIST_COUNT):
                yield from batch
                start += len(batch)
        except ChecksumError as error:
            if damaged is None:
                raise
            damaged(error)

    def read_files(self, inos: Sequence[int]) -> list[RecordBytes]:
        """Return whole files, verified, in one batch. Raises ChecksumError naming the path."""
        # Otherwise the core would import it, and a program that ends during that import aborts.
        import numpy  # noqa: F401

        try:
            return self.volume.read_files(inos)
        except ChecksumError:
            for ino in inos:  # to find the damaged one
                with self._naming(ino):
                    self.volume.read_files([ino])
            raise

    def pieces(self, ino: int) -> Iterator[Slice | bytes]:
        """Yield a file's bytes, verified, in bounded memory however large it is.

        Raises ChecksumError naming the path.
        """
        with self._naming(ino):
            made = self.volume.made_file(ino) if self.volume.is_examples else None
        if made is None:
            yield from self._slices(ino)
        else:
            for offset in range(0, made.size, _MADE_SIZE):
                yield made.read(offset, _MADE_SIZE)

    def read_whole(self, ino: int) -> bytes:
        """Return a file's bytes. Raises ChecksumError naming the path."""
        attributes = self.volume.attributes(ino)
        assert attributes is not None
        if attributes.size <= _PIECE_SIZE:  # a batch costs more than a read
            return bytes(self.read_at(ino, 0, attributes.size))
        return self.read_files([ino])[0].tobytes()

    def read_at(self, ino: int, offset: int, size: int) -> Slice:
        """Return verified bytes of a file, fewer than `size` at its end.

        They count in the core's budget until they are freed. Raises ChecksumError naming the
        path, also for an empty file whose record has another checksum.
        """
        with self._naming(ino):
            piece = self.volume.read_wait(ino, offset, size)
            if offset == 0 and len(piece) == 0:
                self.volume.read_files([ino])  # this compares the checksum of no bytes
            return piece

    def _slices(self, ino: int) -> Iterator[Slice]:
        offset = 0
        while piece := self.read_at(ino, offset, _PIECE_SIZE):
            yield piece
            offset += len(piece)

    @contextlib.contextmanager
    def _naming(self, ino: int) -> Iterator[None]:
        try:
            yield
        except ChecksumError as error:
            packs = [shown_name(os.fsdecode(path)) for path in self.volume.paths]
            file = error.file if error.file in packs else self.file
            reason = f"{_quoted(self.path(ino))}: {text_within(error, file)}"
            raise ChecksumError.at(file, reason, error.record) from None

    def stored(self, ino: int) -> tuple[int, int] | None:
        """Return the packed permissions and time (ns since 1970), if they are known.

        A mount shows fewer permissions: it is read-only.
        """
        if self.volume.is_examples:  # it has none, and asking could read the record again
            return None
        return self.volume.stored(ino)

    def target(self, ino: int) -> str:
        """Return the target of a symbolic link; "" for any other entry."""
        return os.fsdecode(self.volume.target(ino))

    def path(self, ino: int) -> str:
        return os.fsdecode(self.volume.path(ino))

    def close(self) -> None:
        self.volume.close()


def pack_files(pack: PathType) -> list[str]:
    """Return the files of a pack: itself, or those of a directory, in order.

    Raises FormatError, OSError if there is none. Their contents are not checked.
    """
    name = os.fspath(pack)
    let_urls_in([name])
    return [os.fsdecode(file) for file in record_files([os.fsencode(name)])]


def _quoted(path: PathType) -> str:
    return quoted(os.fsdecode(path))
