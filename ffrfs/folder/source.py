"""The folder to pack: walked once, in the order of the format, as names and sizes.

Depth-first over the names in sorted order, files and folders mixed; a file's place in
this order is its record number. Links are followed. What cannot be packed is named:
refused, or left out where the caller wants special files skipped.

Not here: the bytes (native core, which finds out if a file changes after this walk).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias, Union

from ffrfs.errors import PackError
from ffrfs.folder.selection import Selection

DEPTH_LIMIT = 1024  # folders in each other, as the reader of the index allows

# Names in packing order: of a file its size in bytes, of a folder its content.
SourceTree: TypeAlias = dict[str, Union[int, "SourceTree"]]

_KINDS = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


class FolderIdentity(NamedTuple):
    """What a folder is, by whatever path it was reached."""

    device: int
    inode: int

    @classmethod
    def of(cls, info: os.stat_result) -> FolderIdentity:
        return cls(info.st_dev, info.st_ino)


class _Place(NamedTuple):
    name: str
    path: str
    below_root: str  # path from the packed folder
    included: bool  # it, or a folder above, is asked for with all that it holds


class _OpenFolder(NamedTuple):
    """A folder on the way from the root to where the walk is."""

    place: _Place
    identity: FolderIdentity
    names: Iterator[str]  # not yet visited
    tree: SourceTree


class Source:
    """What is to be packed of one folder.

    Raises PackError for what cannot be packed, OSError for what cannot be read, naming it.
    """

    def __init__(
        self,
        folder: str,
        *,
        selection: Selection,
        skip_special: bool = False,
        forbidden: FolderIdentity | None = None,
    ) -> None:
        self.folder = folder
        self.tree: SourceTree = {}
        self.file_count = 0
        self.byte_count = 0
        self.folder_count = 0  # without the root
        self.skipped: list[str] = []  # paths
        self._selection = selection
        self._skip_special = skip_special
        self._forbidden = forbidden  # the folder that the pack is written to
        self._walk()

    def files(self) -> Iterator[tuple[bytes, int]]:
        """Yield (path, size in bytes) in the order of the record numbers."""
        stack = [(os.path.join(self.folder, ""), iter(self.tree.items()))]
        while stack:
            prefix, entries = stack[-1]
            for name, child in entries:
                if isinstance(child, dict):
                    stack.append((f"{prefix}{name}/", iter(child.items())))
                    break
                yield os.fsencode(prefix + name), child
            else:
                stack.pop()

    def _walk(self) -> None:
        root = _Place("", self.folder, "", self._selection.takes_all)
        stack = [self._open(root, os.stat(self.folder), self.tree)]
        while stack:
            for name in stack[-1].names:
                child = self._visit(stack, name)
                if child is not None:
                    stack.append(child)
                    break
            else:
                self._leave(stack)

    def _open(self, place: _Place, info: os.stat_result, tree: SourceTree) -> _OpenFolder:
        identity = FolderIdentity.of(info)
        if identity == self._forbidden:
            raise PackError(
                f"{place.path}: the pack itself would be written into this folder, which is "
                "packed; write it elsewhere"
            )
        names = iter(sorted(os.listdir(place.path)))
        return _OpenFolder(place, identity, names, tree)

    def _visit(self, stack: list[_OpenFolder], name: str) -> _OpenFolder | None:
        """Take in one name; a folder is returned, to be walked."""
        parent = stack[-1]
        below_root = f"{parent.place.below_root}/{name}" if len(stack) > 1 else name
        if self._selection.excludes(name, below_root):
            return None
        included = parent.place.included or self._selection.includes(name, below_root)
        place = _Place(name, os.path.join(parent.place.path, name), below_root, included)
        try:
            info = _status(place.path)
        except PackError:
            if included:
                raise
            return None
        if stat.S_ISDIR(info.st_mode):
            if not self._has_good_name(place):
                return None
            _check_loop(stack, place.path, info)
            if len(stack) > DEPTH_LIMIT:
                raise PackError(f"{place.path}: deeper than {DEPTH_LIMIT} folders; exclude it")
            tree: SourceTree = {}
            child = self._open(place, info, tree)
            parent.tree[name] = tree
            self.folder_count += 1
            return child
        if included and self._has_good_name(place) and self._is_regular(place, info):
            parent.tree[name] = info.st_size
            self.file_count += 1
            self.byte_count += info.st_size
        return None

    def _leave(self, stack: list[_OpenFolder]) -> None:
        folder = stack.pop()
        if stack and not folder.tree and not folder.place.included:  # holds nothing asked for
            del stack[-1].tree[folder.place.name]
            self.folder_count -= 1

    def _has_good_name(self, place: _Place) -> bool:
        try:
            place.name.encode()
        except UnicodeEncodeError:
            self._refuse(place, "its name is not UTF-8")
            return False
        return True

    def _is_regular(self, place: _Place, info: os.stat_result) -> bool:
        if stat.S_ISREG(info.st_mode):
            return True
        self._refuse(place, f"is {_KINDS.get(stat.S_IFMT(info.st_mode), 'no regular file')}")
        return False

    def _refuse(self, place: _Place, reason: str) -> None:
        if not self._skip_special:
            raise PackError(f"{place.path}: {reason}; exclude it, or skip all that is special")
        self.skipped.append(place.path)


def _status(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        try:
            target = os.readlink(path)
        except OSError:
            raise error from None
        raise PackError(
            f"{path}: a symbolic link to {target}, which cannot be followed "
            f"({error.strerror}); exclude it or remove it"
        ) from None


def _check_loop(stack: list[_OpenFolder], path: str, info: os.stat_result) -> None:
    identity = FolderIdentity.of(info)
    for depth, folder in enumerate(stack):
        if folder.identity == identity:
            way = [below.place.path for below in stack[depth + 1 :]] + [path]
            link = next((step for step in reversed(way) if os.path.islink(step)), path)
            raise PackError(
                f"{link}: a symbolic link that makes a loop, back to {folder.place.path}; "
                "exclude it"
            )
