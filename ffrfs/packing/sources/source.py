"""The directory to pack: walked once, into a list of names, sizes, permissions and times.

Symbolic links are followed, if they stay inside or wherever they lead, kept as links, or left
out. What cannot be packed is named: refused, or left out where the caller wants that.

Not here: the order of the records, and their bytes (native core, which finds out if a
file changes after this walk); archives (archive.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from array import array
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, NoReturn, Protocol, TypeVar

from ffrfs._native import Manifest, Writer
from ffrfs.errors import PackError
from ffrfs.packing.sources.contents import SPECIAL_KINDS, LinkCounts, Symlinks, Tick
from ffrfs.packing.sources.contents import storable_time_ns as storable_ns
from ffrfs.packing.sources.existing_set import ExistingSet
from ffrfs.packing.sources.order import number_by_keys
from ffrfs.packing.sources.selection import Selection, Wanted

DEPTH_LIMIT = 1024  # directories in each other, as the reader of the index allows

# Files given to the list, or to the threads, at a time: each is a few Python objects.
_BATCH_COUNT = 4096

# Of a file that is digested.
_PIECE_SIZE = 1 << 20

# Links that lead out of the directory: a line names the first of them, in the order of their
# names. Memory has an end, too.
_OUTSIDE_NAMED_MAX = 5
_OUTSIDE_KEPT_MAX = 10_000


class FolderIdentity(NamedTuple):
    """What a directory is, by whatever path it was reached."""

    device: int
    inode: int

    @classmethod
    def of(cls, info: os.stat_result) -> FolderIdentity:
        return cls(info.st_dev, info.st_ino)


class _Place(NamedTuple):
    """A directory on the way, or a name in one."""

    name: str
    path: str
    below_root: str  # path from the root of what is packed
    wanted: Wanted


class _Name(NamedTuple):
    """A name in an open directory: as much of an os.DirEntry as is needed here."""

    fd: int  # of the directory
    name: str

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        return os.stat(self.name, dir_fd=self.fd, follow_symlinks=follow_symlinks)

    def is_symlink(self) -> bool:
        return stat.S_ISLNK(self.stat(follow_symlinks=False).st_mode)


class _HasWanted(Protocol):
    @property
    def wanted(self) -> Wanted: ...


PlaceT = TypeVar("PlaceT", bound=_HasWanted)
InnerT = TypeVar("InnerT")


class OpenFolder(Generic[PlaceT, InnerT]):
    """A directory on the way from the root to where a walk is; of packs, too (PackSource)."""

    def __init__(self, place: PlaceT, number: int, existing: int) -> None:
        self.place = place
        self.number = number  # in the entries
        self.existing = existing  # the same directory where new shards are added; 0: none
        self.folders: list[InnerT] = []  # not yet walked, the last first
        self.is_empty = True

    def leave(self, stack: Sequence[OpenFolder[PlaceT, InnerT]], entries: Manifest) -> None:
        """All in it was walked; `stack`: the directories above."""
        if not stack:
            return
        if self.is_empty and not self.place.wanted.is_asked_for:  # it holds nothing asked for
            entries.drop_folder(self.number)
        else:
            stack[-1].is_empty = False


class _OpenFolder(OpenFolder[_Place, tuple[_Place, os.stat_result]]):
    def __init__(self, place: _Place, info: os.stat_result, number: int, existing: int) -> None:
        super().__init__(place, number, existing)
        self.identity = FolderIdentity.of(info)


class Source:
    """What is to be packed of one directory. A Contents.

    Raises PackError for what cannot be packed, OSError for what cannot be read, naming it.
    """

    is_stream = False

    def __init__(  # noqa: PLR0913 - each is a question of its own
        self,
        folder: str,
        *,
        selection: Selection,
        symlinks: Symlinks = "inside",
        skip_special: bool = False,
        forbidden: FolderIdentity | None = None,
        existing: ExistingSet | None = None,
    ) -> None:
        self.name = folder
        self.entries = Manifest()
        self.skipped: list[str] = []  # paths
        self.links = LinkCounts()
        self._selection = selection
        self._lines = array("Q")  # of each file of the entries, that names it in the list
        self._symlinks = symlinks
        self._real_root = os.path.join(os.path.realpath(folder), "")
        self._outside: list[str] = []  # paths of links that lead out
        self._outside_count = 0
        self._skip_special = skip_special
        self._forbidden = forbidden  # the directory that the pack is written to
        self._existing = existing
        self._walk()

    def share(self) -> None:
        pass  # hard links are files like others

    def number(self) -> None:
        """By path; if there is a list, in its order."""
        if self._selection.has_list:
            number_by_keys(self.entries, self._lines)
        else:
            self.entries.number("path")

    def append(self, writer: Writer, first: int, count: int, jobs: int, tick: Tick) -> None:
        writer.append_folder(self.entries, os.fsencode(self.name), first, count, jobs, tick)

    def digests(self, files: Sequence[int], jobs: int) -> Iterator[bytes]:
        root = os.path.join(os.fsencode(self.name), b"")
        sizes = self.entries.sizes()
        with ThreadPoolExecutor(jobs) as pool:
            for start in range(0, len(files), _BATCH_COUNT):
                batch = files[start : start + _BATCH_COUNT]
                paths = [root + path for path in self.entries.paths(batch)]
                yield from pool.map(_digest, paths, (int(sizes[file]) for file in batch))

    def close(self) -> None:
        pass  # a file is open only while it is read

    def _walk(self) -> None:
        info = os.stat(self.name)
        self.entries.describe_folder(0, info.st_mode, _time_ns(info))
        place = _Place("", self.name, "", self._selection.root)
        stack = [_OpenFolder(place, info, 0, self._existing.root if self._existing else 0)]
        self._list(stack[0])
        while stack:
            if stack[-1].folders:
                self._enter(stack, *stack[-1].folders.pop())
            else:
                stack.pop().leave(stack, self.entries)
        if self._outside:
            raise self._outside_refusal()
        self._selection.check_matched(self.name)

    def _enter(self, stack: list[_OpenFolder], place: _Place, info: os.stat_result) -> None:
        parent = stack[-1]
        _check_loop(stack, place.path, info)
        if len(stack) > DEPTH_LIMIT:
            raise PackError(f"{place.path}: deeper than {DEPTH_LIMIT} directories; exclude it")
        name = place.name.encode()
        number = self.entries.add_folder(parent.number, name, info.st_mode, _time_ns(info))
        existing = 0
        if self._existing and parent.existing:
            existing = self._existing.enter(parent.existing, name, place.path)
        folder = _OpenFolder(place, info, number, existing)
        self._list(folder)
        stack.append(folder)

    def _list(self, folder: _OpenFolder) -> None:
        """Take in the names of a directory; the directories among them are for later."""
        place = folder.place
        if folder.identity == self._forbidden:
            raise PackError(
                f"{place.path}: the pack would be inside the directory that it packs; write "
                "it elsewhere"
            )
        takes_whole = self._selection.takes_whole(place.wanted)
        # By descriptor: the kernel then looks up names alone, not their paths.
        with _opened(place.path) as fd:
            if takes_whole and not (self._existing and folder.existing):
                self._take(folder, self._others(folder, fd), takes_whole)
            else:
                with os.scandir(fd) as found:
                    self._take(folder, found, takes_whole)
        folder.folders.sort(reverse=True)

    def _others(self, folder: _OpenFolder, fd: int) -> Iterator[_Name]:
        """Take in the regular files of a directory in one go; yield what else is in it."""
        entries = self.entries
        count = entries.file_count
        others = entries.add_found(folder.number, fd, os.fsencode(folder.place.path))
        count = entries.file_count - count
        folder.is_empty = folder.is_empty and count == 0
        if self._selection.has_list:
            self._lines.extend([folder.place.wanted.line or 0] * count)
        return (_Name(fd, os.fsdecode(name)) for name in others)

    def _take(
        self,
        folder: _OpenFolder,
        found: Iterable[os.DirEntry[str]] | Iterable[_Name],
        takes_whole: bool,
    ) -> None:
        place = folder.place
        files: list[tuple[bytes, int, int, int]] = []
        follows = self._symlinks in ("inside", "follow")
        selection = self._selection
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
                    _refuse_unknown(os.path.join(place.path, entry.name), error)
                continue
            if follows and entry.is_symlink():
                # Behind a link to a directory may be what is asked for.
                asked_for = included or stat.S_ISDIR(info.st_mode)
                if not asked_for or not self._follow(os.path.join(place.path, entry.name)):
                    continue
            if not stat.S_ISREG(info.st_mode):
                self._take_other(folder, entry.name, info, wanted)
            elif included and (name := self._encoded(place, entry.name)) is not None:
                files.append((name, info.st_size, info.st_mode, _time_ns(info)))
                if selection.has_list:
                    self._lines.append(wanted.line or 0)
                if len(files) == _BATCH_COUNT:
                    self._add(folder, files)
        self._add(folder, files)

    def _follow(self, link: str) -> bool:
        """Tell whether a link that leads somewhere is followed."""
        if self._symlinks == "inside":
            real = os.path.realpath(link)
            if not os.path.join(real, "").startswith(self._real_root):
                self._outside_count += 1
                if len(self._outside) < _OUTSIDE_KEPT_MAX:
                    self._outside.append(link)
                return False
        self.links.followed += 1
        return True

    def _outside_refusal(self) -> PackError:
        named = sorted(self._outside)[:_OUTSIDE_NAMED_MAX]
        texts = [f"{os.path.relpath(link, self.name)} (to {os.readlink(link)})" for link in named]
        more = self._outside_count - len(named)
        texts += [f"and {more:,} more"] if more else []
        links = "a symbolic link leads" if self._outside_count == 1 else "symbolic links lead"
        return PackError(
            f"{self.name}: {links} out of it: {', '.join(texts)}; follow, keep or skip links by "
            "--symlinks, or exclude them"
        )

    def _take_other(
        self, folder: _OpenFolder, name: str, info: os.stat_result, wanted: Wanted
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
            folder.folders.append((_Place(name, path, below_root, wanted), info))
        elif stat.S_ISLNK(info.st_mode):
            target = os.readlink(os.fsencode(path))
            if self._existing and folder.existing:
                self._existing.refuse(folder.existing, encoded, path)
            self.entries.add_link(folder.number, encoded, target, _time_ns(info))
            folder.is_empty = False
        else:
            kind = SPECIAL_KINDS.get(stat.S_IFMT(info.st_mode), "not a regular file")
            self._refuse(path, f"is {kind}")

    def _add(self, folder: _OpenFolder, files: list[tuple[bytes, int, int, int]]) -> None:
        if not files:
            return
        if self._existing and folder.existing:
            for name, *_ in files:
                path = os.path.join(folder.place.path, os.fsdecode(name))
                self._existing.refuse(folder.existing, name, path)
        self.entries.add_files(folder.number, files)
        folder.is_empty = False
        files.clear()

    def _encoded(self, place: _Place, name: str) -> bytes | None:
        try:
            return name.encode()
        except UnicodeEncodeError:
            self._refuse(os.path.join(place.path, name), "the name is not UTF-8")
            return None

    def _refuse(self, path: str, reason: str) -> None:
        if not self._skip_special:
            raise PackError(f"{path}: {reason}; exclude it, or skip such files (--skip-special)")
        self.skipped.append(path)


@contextlib.contextmanager
def _opened(folder: str) -> Iterator[int]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _below(place: _Place, name: str) -> str:
    return f"{place.below_root}/{name}" if place.below_root else name


def _refuse_unknown(path: str, error: OSError) -> NoReturn:
    """Raise what `error` of stat() means."""
    try:
        target = os.readlink(path)
    except OSError:
        raise OSError(error.errno, error.strerror, path) from None
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


def _time_ns(info: os.stat_result) -> int:
    return storable_ns(info.st_mtime_ns)


def _digest(path: bytes, size: int) -> bytes:
    """Return the SHA-256 of a file; PackError if it is not, or no longer, one of `size` bytes."""
    # O_NONBLOCK: a FIFO that took the file's place must not hold us.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise PackError(f"{os.fsdecode(path)}: is no longer a regular file")
        digest = hashlib.sha256()
        read_size = 0
        while piece := os.read(fd, min(_PIECE_SIZE, size + 1 - read_size)):
            digest.update(piece)
            read_size += len(piece)
            if read_size > size:
                break
    finally:
        os.close(fd)
    if read_size != size:
        raise PackError(
            f"{os.fsdecode(path)}: changed size while it was packed (was {size} bytes); pack again"
        )
    return digest.digest()
