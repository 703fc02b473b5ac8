"""Lists directories of a source for a plan: a task that any worker may run.

A task takes some directories, goes down from them, and gives back the directories that it did not
reach within its share, so that all workers list a large tree. It lists the files that one process
would pack (ffrfs/packing/sources/source.py).

Not here: the order of all files (folder_plan.py), reading files (pack_task.py).
Concurrency: tasks share nothing.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from ffrfs._native import EntryList
from ffrfs.cluster.file_task import Environment, adopt
from ffrfs.cluster.piece import link_text
from ffrfs.errors import PackError
from ffrfs.packing.sources.contents import UNKNOWN_TIME_NS
from ffrfs.packing.sources.folder_lister import (
    DEPTH_LIMIT,
    FolderLister,
    Place,
    WalkedFolder,
    changed,
    opened_folder,
    real_path,
    time_ns_of,
)
from ffrfs.packing.sources.options import PackOptions
from ffrfs.packing.sources.selection import Wanted
from ffrfs.remote.bucket import objects_in
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import RemoteUrl, is_url, parse_url

_NAME_MAX = 255
_OBJECT_MODE = 0o644
# So many entries a task lists before it gives back the other directories.
_SHARE = 50_000


@dataclass(frozen=True)
class ListTask:
    """Directories of `root` to list, with the options of pack_folder()."""

    root: str
    options: PackOptions
    folders: tuple[str, ...]  # below the root; "" is the root itself
    environment: Environment = ()


@dataclass
class Folder:
    """One directory, its names in byte order."""

    path: str
    mode: int
    mtime_ns: int
    is_asked_for: bool
    names: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    modes: list[int] = field(default_factory=list)
    mtimes_ns: list[int] = field(default_factory=list)
    links: list[tuple[str, str, int]] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)  # of objects: their versions
    behind_link: str = ""  # its path without links, if there is one in `path`

    def split_by_folders(self) -> Iterator[tuple[int, int, str | None]]:
        """Yield files (from, to before) and the directory that follows them; the last has none."""
        first = 0
        for name in self.folders:
            end = bisect_left(self.names, name, first)
            yield first, end, name
            first = end
        yield first, len(self.names), None


@dataclass
class Listed:
    """The result of a task."""

    folders: list[Folder] = field(default_factory=list)
    left: list[str] = field(default_factory=list)  # directories that it did not reach
    skipped: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)  # the first links that lead out
    outside_count: int = 0
    # Patterns to include that have matched nothing in it.
    unmatched: tuple[str, ...] = ()


def list_folders(task: ListTask) -> Listed:
    """Run the task. Raises PackError for files that cannot be packed, OSError."""
    adopt(task.environment)
    lister = (_BucketLister if is_url(task.root) else _Lister)(task.root, task.options)
    found = Listed()
    todo = list(reversed(task.folders))
    entry_count = 0
    while todo and entry_count < _SHARE:
        folder = lister.read(todo.pop())
        found.folders.append(folder)
        above = f"{folder.path}/" if folder.path else ""
        todo += [above + name for name in reversed(folder.folders)]
        entry_count += 1 + len(folder.names) + len(folder.folders)
    found.left = todo[::-1]
    found.skipped, found.unmatched = lister.skipped, lister.selection.unmatched
    found.outside, found.outside_count = lister.outside, lister.outside_count
    return found


class _Lister(FolderLister):
    _path = ""  # the path of the directory that is read

    def read(self, path: str) -> Folder:
        """List a directory below the root. Plans have names as UTF-8, whatever the locale's is."""
        listed, path = path, os.fsdecode(path.encode())
        place = os.path.join(self.name, path) if path else self.name
        if path.count("/") + 1 > DEPTH_LIMIT:
            raise PackError(f"{place}: deeper than {DEPTH_LIMIT} directories; exclude it")
        wanted = self._wanted(path)
        with opened_folder(place) as fd:
            info, real = os.fstat(fd), real_path(fd)
        if self._is_elsewhere(real, path):
            raise changed(place)
        self._path, self.entries = path, EntryList()
        opened = WalkedFolder(Place("", place, path, wanted), info, 0)
        self._list(opened)
        self.entries.number("path")
        folder = Folder(listed, info.st_mode & 0o777, time_ns_of(info), wanted.is_asked_for)
        folder.behind_link = real if self._is_behind_link(real, path) else ""
        folder.folders = [os.fsencode(below.name).decode() for below, _ in reversed(opened.folders)]
        files = []
        for _, _, name, *values, target in self.entries.rows(0, self.entries.record_count):
            if target:
                folder.links.append((name.decode(), link_text(target), values[2]))
            elif name:
                files.append((name.decode(), *values))
        if files:
            columns = zip(*files, strict=True)
            folder.names, folder.sizes, folder.modes, folder.mtimes_ns = map(list, columns)
        return folder

    def _wanted(self, path: str) -> Wanted:
        """Return how far the patterns select a directory."""
        wanted = self.selection.wanted(path) if path else self.selection.root
        assert wanted is not None  # its directory has listed it
        return wanted

    def _follow(self, link: str) -> bool:
        is_followed = super()._follow(link)
        steps = self._path.split("/") if self._path else []
        for depth in range(len(steps) + 1) if is_followed and os.path.isdir(link) else ():
            above = os.path.join(self.name, *steps[:depth])
            if os.path.samefile(above, link):
                raise PackError(
                    f"{link}: a symbolic link that makes a loop, back to {above}; exclude it"
                )
        return is_followed


class _BucketLister(_Lister):
    """Lists directories of a bucket: names of objects are paths there."""

    def read(self, path: str) -> Folder:
        url = parse_url(f"{self.name.rstrip('/')}/{path}{'/' if path else ''}")
        wanted = self._wanted(path)
        folder = Folder(path, 0, UNKNOWN_TIME_NS, wanted.is_asked_for)
        objects, folders = objects_in(url, RemoteSettings.from_environment())
        for found in sorted(objects):
            if self._is_wanted(path, found.name, wanted) and self._is_good(url, found.name):
                folder.names.append(found.name)
                folder.sizes.append(found.size)
                folder.modes.append(_OBJECT_MODE)
                folder.mtimes_ns.append(found.mtime_ns)
                folder.tags.append(found.etag)
        for name in sorted(folders):
            below = f"{path}/{name}" if path else name
            is_wanted = self.selection.step(wanted, name, below) is not None
            if is_wanted and self._is_good(url, name):
                folder.folders.append(name)
        return folder

    def _is_wanted(self, path: str, name: str, above: Wanted) -> bool:
        own = self.selection.step(above, name, f"{path}/{name}" if path else name)
        return own is not None and own.is_asked_for

    def _is_good(self, url: RemoteUrl, name: str) -> bool:
        if name not in ("", ".", "..") and "/" not in name and len(name.encode()) <= _NAME_MAX:
            return True
        self._refuse(f"{url.shown}{name}", "the name is none that a file can have")
        return False
