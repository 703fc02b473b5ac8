"""Lists a directory, name by name: each is added to a list, refused, or left out.

Symbolic links are followed (all, or those that stay inside), kept as links, or left out. Files
that cannot be packed are named: refused, or left out if the caller wants that.

Not here: going down (source.py, ffrfs/cluster/listing.py). Concurrency: one thread.
"""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, NamedTuple, TypeVar

from ffrfs._native import EntryList
from ffrfs.errors import PackError, naming
from ffrfs.files.closing import closing_fd
from ffrfs.packing.sources.contents import (
    ADVICE,
    SPECIAL_KINDS,
    Advice,
    LinkCounts,
    Symlinks,
    storable_time_ns,
)
from ffrfs.packing.sources.options import PackOptions
from ffrfs.packing.sources.selection import Selection, Wanted

DEPTH_LIMIT = 1024  # nested directories; the limit of the index

# Links to directories with links to directories multiply; no data set needs so many.
SHOWN_THROUGH_LINKS_LIMIT = 1_000_000

# Files given to the list, or to the threads, at a time: each is a few Python objects.
BATCH_COUNT = 4096

# An error names the first links that lead out of the directory, in the order of their names. The
# others are counted, to bound memory.
_OUTSIDE_NAMED_MAX = 5
_OUTSIDE_KEPT_MAX = 10_000


class FolderIdentity(NamedTuple):
    """The identity of a directory, the same by every path."""

    device: int
    inode: int

    @classmethod
    def of(cls, info: os.stat_result) -> FolderIdentity:
        return cls(info.st_dev, info.st_ino)


class Place(NamedTuple):
    """A directory of the walk, or a name in one."""

    name: str
    path: str
    below_root: str  # path from the root of the source
    wanted: Wanted
    is_behind_link: bool = False


class _Name(NamedTuple):
    """A name in an open directory, with the needed part of os.DirEntry."""

    fd: int  # of the directory
    name: str

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        return os.stat(self.name, dir_fd=self.fd, follow_symlinks=follow_symlinks)

    def is_symlink(self) -> bool:
        return stat.S_ISLNK(self.stat(follow_symlinks=False).st_mode)


PlaceT = TypeVar("PlaceT")
InnerT = TypeVar("InnerT")
FolderT = TypeVar("FolderT", bound="OpenFolder[Any, Any]")


class OpenFolder(Generic[PlaceT, InnerT]):
    """A directory between the root and the place of a walk, also of archives and packs."""

    def __init__(self, place: PlaceT, number: int, *, is_asked_for: bool) -> None:
        self.place = place
        self.number = number  # in the entries
        self.is_asked_for = is_asked_for  # then it is packed even if it is empty
        self.folders: list[InnerT] = []  # not yet walked, the last first
        self.is_empty = True


def walk(
    root: FolderT,
    entries: EntryList,
    take_in: Callable[[FolderT], None],
    enter: Callable[[list[FolderT], Any], FolderT],
) -> None:
    """Add the names of a directory, and of the directories below it, depth first."""
    stack = [root]
    take_in(root)
    while True:
        folder = stack[-1]
        if folder.folders:
            below = enter(stack, folder.folders.pop())
            take_in(below)
            stack.append(below)
            continue
        stack.pop()
        if not stack:
            return
        if folder.is_empty and not folder.is_asked_for:  # no listed or included name is in it
            entries.drop_folder(folder.number)
        else:
            stack[-1].is_empty = False


class WalkedFolder(OpenFolder[Place, tuple[Place, os.stat_result]]):
    def __init__(self, place: Place, info: os.stat_result, number: int) -> None:
        super().__init__(place, number, is_asked_for=place.wanted.is_asked_for)
        self.identity = FolderIdentity.of(info)


class ShownAgain:
    """Counts files that links show again: one link to a large directory does not multiply."""

    def __init__(self) -> None:
        self._seen: set[Hashable] = set()
        self._count = 0  # names

    def count(self, identity: Hashable, path: str, files: int) -> None:
        """Note a directory behind a link. Raises PackError above the limit."""
        if identity not in self._seen:
            self._seen.add(identity)
            return
        self._count += 1 + files  # with itself, because empty directories multiply, too
        if self._count > SHOWN_THROUGH_LINKS_LIMIT:
            raise PackError(
                f"{path}: is one of over {SHOWN_THROUGH_LINKS_LIMIT:,} behind links that show a "
                "directory again; keep the links"
            )


class FolderLister:
    """Lists directories below `folder`. `forbidden`: the directory that is written to.

    Raises PackError for a file that cannot be packed, OSError for one that cannot be read; they
    name it.
    """

    def __init__(
        self,
        folder: str,
        options: PackOptions,
        *,
        forbidden: FolderIdentity | None = None,
        advice: Advice = ADVICE,
    ) -> None:
        self.name = folder
        self.entries = EntryList()
        self.skipped: list[str] = []  # paths
        self.links = LinkCounts()
        self.selection = Selection(options.include, options.exclude, options.listed)
        self.outside: list[str] = []  # paths of the first links that lead out
        self.outside_count = 0
        self._lines = array("Q")  # by file of the entries: the line that names it
        self._symlinks = options.symlinks or "inside"
        self._real_root = os.path.join(os.path.realpath(folder), "")
        self._skip_special = options.skip_special
        self._forbidden = forbidden
        self._shown_again = ShownAgain()
        self.advice = advice
        self._walk()

    def _walk(self) -> None:
        """Add all entries; a subclass that adds them in parts leaves this out."""

    def _list(self, folder: WalkedFolder) -> None:
        """Add the names of a directory; the directories among them come later."""
        place = folder.place
        # In a directory that the list does not name, only listed paths are packed.
        if folder.identity == self._forbidden and place.wanted.line is not None:
            raise PackError(
                f"{place.path}: the pack would be inside the directory that it packs; write "
                "it elsewhere"
            )
        takes_whole = self.selection.takes_whole(place.wanted)
        before = self.entries.file_count
        # By descriptor, because the kernel then looks up names alone, not whole paths.
        with opened_folder(place.path) as fd:
            if FolderIdentity.of(os.fstat(fd)) != folder.identity:  # maybe a link by now
                raise changed(place.path)
            if takes_whole:
                self._take(folder, self._others(folder, fd), takes_whole)
            else:
                self._take(folder, _scanned(fd, place.path), takes_whole)
        folder.folders.sort(reverse=True)
        if place.is_behind_link:
            self._shown_again.count(folder.identity, place.path, self.entries.file_count - before)

    def _others(self, folder: WalkedFolder, fd: int) -> Iterator[_Name]:
        """Add the regular files of a directory at once; yield all other names."""
        entries = self.entries
        count = entries.file_count
        others = entries.add_found(folder.number, fd, os.fsencode(folder.place.path))
        count = entries.file_count - count
        folder.is_empty = folder.is_empty and count == 0
        if self.selection.has_list:
            self._lines.extend([folder.place.wanted.line or 0] * count)
        return (_Name(fd, os.fsdecode(name)) for name in others)

    def _take(
        self,
        folder: WalkedFolder,
        found: Iterable[os.DirEntry[str]] | Iterable[_Name],
        takes_whole: bool,
    ) -> None:
        place = folder.place
        files: list[tuple[bytes, int, int, int]] = []
        follows = self._symlinks in ("inside", "follow")
        selection = self.selection
        for entry in found:
            wanted: Wanted | None = place.wanted
            if not takes_whole:
                wanted = selection.step(place.wanted, entry.name, _below(place, entry.name))
            if wanted is None:
                continue
            included = wanted.is_asked_for
            try:
                info = entry.stat(follow_symlinks=follows)
            except OSError as error:
                if included:
                    self._refuse_unknown(os.path.join(place.path, entry.name), error)
                    selection.lose(place.wanted, entry.name)
                continue
            is_link = follows and entry.is_symlink()
            if is_link:
                # A listed or included path may be behind a link to a directory.
                asked_for = included or stat.S_ISDIR(info.st_mode)
                if not asked_for or not self._follow(os.path.join(place.path, entry.name)):
                    continue
            if not stat.S_ISREG(info.st_mode):
                self._take_other(folder, entry.name, info, wanted, is_link)
            elif included and (name := self._encoded(place, entry.name)) is not None:
                files.append((name, info.st_size, info.st_mode, time_ns_of(info)))
                if selection.has_list:
                    self._lines.append(wanted.line or 0)
                if len(files) == BATCH_COUNT:
                    self._add(folder, files)
        self._add(folder, files)

    def _follow(self, link: str) -> bool:
        """Return whether a link that is not broken is followed."""
        if self._symlinks == "inside":
            real = os.path.realpath(link)
            if not os.path.join(real, "").startswith(self._real_root):
                self.outside_count += 1
                if len(self.outside) < _OUTSIDE_KEPT_MAX:
                    self.outside.append(link)
                return False
        self.links.followed += 1
        return True

    def _is_elsewhere(self, real: str, below_root: str) -> bool:
        return is_elsewhere(real, self._real_root, below_root, self._symlinks)

    def _is_behind_link(self, real: str, below_root: str) -> bool:
        return is_elsewhere(real, self._real_root, below_root, "keep")

    def _take_other(
        self,
        folder: WalkedFolder,
        name: str,
        info: os.stat_result,
        wanted: Wanted,
        is_link: bool,
    ) -> None:
        if not wanted.is_asked_for and not stat.S_ISDIR(info.st_mode):
            return
        if stat.S_ISLNK(info.st_mode) and self._symlinks == "skip":
            self.links.left_out += 1
            return
        encoded = self._encoded(folder.place, name)
        if encoded is None:
            return
        path = os.path.join(folder.place.path, name)
        if stat.S_ISDIR(info.st_mode):
            below_root = _below(folder.place, name)
            is_link |= folder.place.is_behind_link
            folder.folders.append((Place(name, path, below_root, wanted, is_link), info))
        elif stat.S_ISLNK(info.st_mode):
            target = os.readlink(os.fsencode(path))
            self.entries.add_link(folder.number, encoded, target, time_ns_of(info))
            folder.is_empty = False
        else:
            kind = SPECIAL_KINDS.get(stat.S_IFMT(info.st_mode), "not a regular file")
            self._refuse(path, f"is {kind}")

    def _add(self, folder: WalkedFolder, files: list[tuple[bytes, int, int, int]]) -> None:
        if files:
            self.entries.add_files(folder.number, files)
            folder.is_empty = False
            files.clear()

    def _encoded(self, place: Place, name: str) -> bytes | None:
        raw = os.fsencode(name)  # its bytes: the locale may have another encoding
        try:
            raw.decode()
        except UnicodeDecodeError:
            self._refuse(os.path.join(place.path, name), "the name is not UTF-8")
            return None
        return raw

    def _refuse(self, path: str, reason: str) -> None:
        if not self._skip_special:
            raise PackError(f"{path}: {reason}; {self.advice.special}")
        self.skipped.append(path)

    def _refuse_unknown(self, path: str, error: OSError) -> None:
        """Raise the error of stat() with its meaning, unless the file was just removed."""
        try:
            target = os.readlink(path)
        except FileNotFoundError:
            return
        except OSError:
            raise OSError(error.errno, error.strerror, path) from None
        raise PackError(
            f"{path}: a symbolic link to {target}, which cannot be followed "
            f"({error.strerror}); {self.advice.one} or remove it"
        ) from None


def opened_folder(folder: str) -> AbstractContextManager[int]:
    return closing_fd(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))


def real_path(fd: int) -> str:
    """Return the path of an open file, without links."""
    return os.readlink(f"/proc/self/fd/{fd}")


def is_elsewhere(real: str, real_root: str, below_root: str, symlinks: Symlinks) -> bool:
    """Return whether a path leads to `real` by a link that would not have been followed."""
    if symlinks == "inside":
        return not os.path.join(real, "").startswith(os.path.join(real_root, ""))
    by_names = os.path.join(real_root, below_root, "")
    return symlinks != "follow" and os.path.join(real, "") != by_names


def changed(path: str) -> PackError:
    return PackError(f"{path}: changed while it was packed; pack again")


def _scanned(fd: int, path: str) -> Iterator[os.DirEntry[str]]:
    with naming(path), os.scandir(fd) as found:
        yield from found


def _below(place: Place, name: str) -> str:
    return f"{place.below_root}/{name}" if place.below_root else name


def time_ns_of(info: os.stat_result) -> int:
    return storable_time_ns(info.st_mtime_ns)


def refuse_outside(root: str, links: Sequence[str], count: int, advice: Advice = ADVICE) -> None:
    """Raise PackError if links lead out of `root`: `count` of them, and the first ones."""
    if not links:
        return
    named = sorted(links)[:_OUTSIDE_NAMED_MAX]
    texts = [f"{os.path.relpath(link, root)} (to {os.readlink(link)})" for link in named]
    more = count - len(named)
    texts += [f"and {more:,} more"] if more else []
    said = "a symbolic link leads" if count == 1 else "symbolic links lead"
    raise PackError(f"{root}: {said} out of it: {', '.join(texts)}; {advice.outside}")
