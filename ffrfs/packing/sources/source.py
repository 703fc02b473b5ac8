"""The directory to pack: walked once, into a list of names, sizes, permissions and times.

Not here: choosing names of a directory (folder_lister.py); the order of the records, and their
bytes (native core, which finds out if a file changes after this walk); archives (archive.py).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from ffrfs._native import Writer
from ffrfs.errors import PackError, naming
from ffrfs.files.closing import closing_fd
from ffrfs.packing.sources.contents import Advice, Contents, Tick
from ffrfs.packing.sources.folder_lister import (
    BATCH_COUNT,
    DEPTH_LIMIT,
    FolderIdentity,
    FolderLister,
    Place,
    WalkedFolder,
    changed,
    real_path,
    refuse_outside,
    time_ns_of,
    walk,
)
from ffrfs.packing.sources.order import number_by_keys

# So many bytes of a file are digested at a time.
_PIECE_SIZE = 1 << 20


class Source(FolderLister, Contents):
    """The files to pack of one directory. Hard links become files of their own."""

    def shown(self, path: str) -> str:
        return os.path.join(self.name, path)

    def number(self) -> None:
        """Number the records by path, or in the order of the list, if there is one."""
        if self.selection.has_list:
            number_by_keys(self.entries, self._lines)
        else:
            self.entries.number("path")

    def append(self, writer: Writer, first: int, count: int, jobs: int, tick: Tick) -> None:
        root = os.fsencode(self.name)
        writer.append_folder(self.entries, root, first, count, jobs, tick, self._symlinks)

    def digests(self, files: Sequence[int], jobs: int) -> Iterator[bytes]:
        sizes = self.entries.sizes()
        with ThreadPoolExecutor(jobs) as pool:
            for start in range(0, len(files), BATCH_COUNT):
                batch = files[start : start + BATCH_COUNT]
                paths = map(os.fsdecode, self.entries.paths(batch))
                yield from pool.map(self._digest, paths, (int(sizes[file]) for file in batch))

    def _digest(self, below_root: str, size: int) -> bytes:
        """Return the SHA-256 of a file. PackError if it is not, or no longer, as it was listed."""
        path = os.path.join(self.name, below_root)
        # O_NONBLOCK: a FIFO that has replaced the file must not block the thread.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        with closing_fd(os.open(path, flags)) as fd:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                raise PackError(f"{path}: is no longer a regular file")
            if self._is_elsewhere(real_path(fd), below_root):
                raise changed(path)
            digest = hashlib.sha256()
            read_size = 0
            with naming(path):
                while piece := os.read(fd, min(_PIECE_SIZE, size + 1 - read_size)):
                    digest.update(piece)
                    read_size += len(piece)
                    if read_size > size:
                        break
        if read_size != size:
            raise PackError(
                f"{path}: changed size while it was packed (was {size} bytes); pack again"
            )
        return digest.digest()

    def _walk(self) -> None:
        info = os.stat(self.name)
        self.entries.describe_folder(0, info.st_mode, time_ns_of(info))
        place = Place("", self.name, "", self.selection.root)
        walk(WalkedFolder(place, info, 0), self.entries, self._list, self._enter)
        refuse_outside(self.name, self.outside, self.outside_count, self.advice)
        self.selection.check_matched(self.name)

    def _enter(
        self, stack: list[WalkedFolder], found: tuple[Place, os.stat_result]
    ) -> WalkedFolder:
        parent, (place, info) = stack[-1], found
        _check_loop(stack, place.path, info, self.advice)
        if len(stack) > DEPTH_LIMIT:
            raise PackError(
                f"{place.path}: deeper than {DEPTH_LIMIT} directories; {self.advice.one}"
            )
        name = os.fsencode(place.name)
        number = self.entries.add_folder(parent.number, name, info.st_mode, time_ns_of(info))
        return WalkedFolder(place, info, number)


def _check_loop(stack: list[WalkedFolder], path: str, info: os.stat_result, advice: Advice) -> None:
    identity = FolderIdentity.of(info)
    for depth, folder in enumerate(stack):
        if folder.identity == identity:
            way = [below.place.path for below in stack[depth + 1 :]] + [path]
            link = next((step for step in reversed(way) if os.path.islink(step)), path)
            raise PackError(
                f"{link}: a symbolic link that makes a loop, back to {folder.place.path}; "
                f"{advice.one}"
            )
