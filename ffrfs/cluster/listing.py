"""Lists directories of a source for a plan: a task that any worker may run.

A task takes some directories, goes down from them, and gives back what it did not reach within
its share, so that a large tree is listed by all workers. It lists what packing by one process
would pack (ffrfs/packing/sources/source.py), by the same rules.

Not here: the order of the whole (folder_plan.py), reading files (pack_task.py).
Concurrency: tasks share nothing.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from ffrfs.cluster.file_task import Environment
from ffrfs.errors import PackError
from ffrfs.packing.sources.contents import (
    SPECIAL_KINDS,
    UNKNOWN_TIME_NS,
    Symlinks,
    storable_time_ns,
)
from ffrfs.packing.sources.selection import Selection, Wanted
from ffrfs.remote.bucket import objects_in
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import RemoteUrl, is_url, parse_url

DEPTH_LIMIT = 1024
_NAME_MAX = 255
_OBJECT_MODE = 0o644
# Entries that a task lists before it gives back the directories that are left.
_SHARE = 50_000


@dataclass(frozen=True)
class ListRules:
    """What of a directory is listed: as pack_folder()."""

    root: str
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    symlinks: Symlinks = "inside"
    skip_special: bool = False


@dataclass(frozen=True)
class ListTask:
    rules: ListRules
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
    tags: list[str] = field(default_factory=list)  # of objects, what changes when they do

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
    """What a task found."""

    folders: list[Folder] = field(default_factory=list)
    left: list[str] = field(default_factory=list)  # directories that it did not reach
    skipped: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)  # links that lead out
    followed_count: int = 0
    left_out_count: int = 0
    # Patterns to include that have matched nothing in it.
    unmatched: tuple[str, ...] = ()


def list_folders(task: ListTask) -> Listed:
    """Raises PackError for what cannot be packed, OSError for what cannot be read."""
    os.environ.update(task.environment)
    lister = _BucketLister(task.rules) if is_url(task.rules.root) else _Lister(task.rules)
    todo = list(reversed(task.folders))
    entry_count = 0
    while todo and entry_count < _SHARE:
        folder = lister.read(todo.pop())
        lister.found.folders.append(folder)
        above = f"{folder.path}/" if folder.path else ""
        todo += [above + name for name in reversed(folder.folders)]
        entry_count += 1 + len(folder.names) + len(folder.folders)
    lister.found.left = todo[::-1]
    lister.found.unmatched = lister.selection.unmatched
    return lister.found


class _Lister:
    def __init__(self, rules: ListRules) -> None:
        self.found = Listed()
        self.selection = Selection(rules.include, rules.exclude)
        self._rules = rules
        self._follows = rules.symlinks in ("inside", "follow")
        self._real_root = os.path.join(os.path.realpath(rules.root), "")

    def read(self, path: str) -> Folder:
        place = os.path.join(self._rules.root, path) if path else self._rules.root
        if path.count("/") + 1 > DEPTH_LIMIT:
            raise PackError(f"{place}: deeper than {DEPTH_LIMIT} directories; exclude it")
        wanted = self._wanted(path)
        info = os.stat(place)
        folder = Folder(path, info.st_mode & 0o777, _time_ns(info), wanted.is_asked_for)
        files: list[tuple[str, int, int, int]] = []
        with os.scandir(place) as entries:
            for entry in entries:
                below = f"{path}/{entry.name}" if path else entry.name
                own = self.selection.step(wanted, entry.name, below)
                if own is not None:
                    self._take(folder, entry, own, files)
        files.sort()
        if files:
            columns = zip(*files, strict=True)
            folder.names, folder.sizes, folder.modes, folder.mtimes_ns = map(list, columns)
        folder.folders.sort()
        folder.links.sort()
        return folder

    def _wanted(self, path: str) -> Wanted:
        """How far a directory is asked for, by the patterns."""
        wanted = self.selection.root
        end = 0
        for name in path.split("/") if path else ():
            end += len(name)
            below = self.selection.step(wanted, name, path[:end])
            assert below is not None  # else its own directory had not listed it
            wanted = below
            end += 1
        return wanted

    def _take(
        self,
        folder: Folder,
        entry: os.DirEntry[str],
        wanted: Wanted,
        files: list[tuple[str, int, int, int]],
    ) -> None:
        try:
            info = entry.stat(follow_symlinks=self._follows)
        except OSError as error:
            if wanted.is_asked_for:
                _refuse_unknown(entry.path, error)
            return
        is_folder = stat.S_ISDIR(info.st_mode)
        if not wanted.is_asked_for and not is_folder:
            return
        if self._follows and entry.is_symlink() and not self._follow(folder, entry, is_folder):
            return
        if stat.S_ISLNK(info.st_mode) and self._rules.symlinks == "skip":
            self.found.left_out_count += 1
        elif not self._has_good_name(entry):
            pass
        elif stat.S_ISREG(info.st_mode):
            files.append((entry.name, info.st_size, info.st_mode & 0o777, _time_ns(info)))
        elif is_folder:
            folder.folders.append(entry.name)
        elif stat.S_ISLNK(info.st_mode):
            folder.links.append((entry.name, os.readlink(entry.path), _time_ns(info)))
        else:
            kind = SPECIAL_KINDS.get(stat.S_IFMT(info.st_mode), "not a regular file")
            self._refuse(entry.path, f"is {kind}")

    def _follow(self, folder: Folder, entry: os.DirEntry[str], is_folder: bool) -> bool:
        """Tell whether a link that leads somewhere is followed."""
        real = os.path.realpath(entry.path)
        is_inside = os.path.join(real, "").startswith(self._real_root)
        if self._rules.symlinks == "inside" and not is_inside:
            self.found.outside.append(entry.path)
            return False
        if is_folder:
            self._check_loop(folder.path, entry.path)
        self.found.followed_count += 1
        return True

    def _check_loop(self, path: str, link: str) -> None:
        steps = path.split("/") if path else []
        for depth in range(len(steps) + 1):
            above = os.path.join(self._rules.root, *steps[:depth])
            if os.path.samefile(above, link):
                raise PackError(
                    f"{link}: a symbolic link that makes a loop, back to {above}; exclude it"
                )

    def _has_good_name(self, entry: os.DirEntry[str]) -> bool:
        try:
            entry.name.encode()
        except UnicodeEncodeError:
            self._refuse(entry.path, "the name is not UTF-8")
            return False
        return True

    def _refuse(self, path: str, reason: str) -> None:
        if not self._rules.skip_special:
            raise PackError(f"{path}: {reason}; exclude it, or skip such files (--skip-special)")
        self.found.skipped.append(path)


class _BucketLister(_Lister):
    """Lists directories of a bucket: names of objects are paths there."""

    def read(self, path: str) -> Folder:
        url = parse_url(f"{self._rules.root.rstrip('/')}/{path}{'/' if path else ''}")
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


def _refuse_unknown(path: str, error: OSError) -> None:
    """Raise what an error of stat() means, unless the file has just gone."""
    try:
        target = os.readlink(path)
    except FileNotFoundError:
        return
    except OSError:
        raise OSError(error.errno, error.strerror, path) from None
    raise PackError(
        f"{path}: a symbolic link to {target}, which cannot be followed "
        f"({error.strerror}); exclude it or remove it"
    ) from None


def _time_ns(info: os.stat_result) -> int:
    return storable_time_ns(info.st_mtime_ns)
