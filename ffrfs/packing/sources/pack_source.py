"""Packs to pack again: one, several or a pack set, read as one tree and not mounted.

Every byte is verified before it is written. Files keep the packed permissions and times, symbolic
links stay links unless they are followed, and names of one record stay names of one record. Small
files are read in batches, the next one while the last is written; larger ones in pieces. Memory
holds about 24 bytes a file, besides the list to pack.

Not here: reading and verifying (PackTree), the targets of links (ffrfs.folder).
Concurrency: append() in any number of threads; all else in one.
"""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from ffrfs._native import EntryList, Writer
from ffrfs.errors import FormatError, PackError
from ffrfs.files.batches import in_batches
from ffrfs.folder.links import follow
from ffrfs.folder.tree import PackTree
from ffrfs.packing.sources.contents import (
    UNKNOWN_TIME_NS,
    Contents,
    LinkCounts,
    Tick,
    digest_of,
    ticking,
)
from ffrfs.packing.sources.folder_lister import (
    SHOWN_THROUGH_LINKS_LIMIT,
    FolderIdentity,
    OpenFolder,
    walk,
)
from ffrfs.packing.sources.options import PackOptions
from ffrfs.packing.sources.order import batches, number_by_keys
from ffrfs.packing.sources.path_list import PathList
from ffrfs.packing.sources.selection import Selection, Wanted
from ffrfs.printable import quoted

if TYPE_CHECKING:
    from ffrfs._native import Attributes, RecordBytes

_LIST_COUNT = 4096  # so many entries of the core at a time
_BATCH_SIZE = 8 << 20  # larger files are read in pieces
_BATCH_COUNT = 1024

_Files: TypeAlias = list[tuple[bytes, int, int, int]]  # as EntryList.add_files() takes them


class _Content(NamedTuple):
    file: int  # its number in the entries
    data: RecordBytes | None  # None: too large to be read whole


class _Place(NamedTuple):
    """A place in the list at which an entry of the packs is shown."""

    name: bytes
    path: str  # from the root
    ino: int
    wanted: Wanted
    is_behind_link: bool


_OpenFolder: TypeAlias = OpenFolder[_Place, _Place]


class PackSource(Contents):
    """The files to pack of `packs`: files, and directories of packs.

    `without`: paths to leave out. `forbidden`: the directory that is written to. Raises PackError
    for entries that cannot be packed, and the exceptions of opening packs.
    """

    def __init__(
        self,
        packs: Sequence[str],
        options: PackOptions,
        *,
        without: PathList | None = None,
        forbidden: FolderIdentity | None = None,
    ) -> None:
        self.entries = EntryList()
        self.skipped: list[str] = []  # paths
        self.links = LinkCounts()
        self._selection = Selection(options.include, options.exclude, options.listed, without)
        self._symlinks = options.symlinks or "keep"
        self._skip_special = options.skip_special
        # By file of the entries.
        self._inos = array("Q")
        self._records = array("Q")
        self._lines = array("Q")  # the line of the list that names it
        self._behind_links_count = 0
        for pack in packs:
            _refuse_own_set(pack, forbidden)
        self._tree = PackTree(
            packs, on_conflict=options.on_conflict, allow_missing=options.allow_missing
        )
        self.name = self._tree.file
        try:
            refuse_other_records(self._tree)
            self._walk()
            self._sizes = self.entries.sizes()
        except BaseException:
            self.close()
            raise

    def share(self) -> None:
        """Let all names of one record share it again."""
        records = np.array(self._records, np.uint64)
        order = np.argsort(records, kind="stable")  # the first name keeps the record
        is_other = np.zeros(len(order), bool)
        is_other[1:] = records[order[1:]] == records[order[:-1]]
        firsts = np.maximum.accumulate(np.where(is_other, 0, np.arange(len(order))))
        for other in np.flatnonzero(is_other).tolist():
            self.entries.share(int(order[other]), int(order[firsts[other]]))

    def number(self) -> None:
        """Number the records in the order of the packs' records, or of the list, if any."""
        keys = self._lines if self._selection.has_list else self._records
        number_by_keys(self.entries, keys)

    def append(self, writer: Writer, first: int, count: int, jobs: int, tick: Tick) -> None:
        """Append in this thread, while another one reads ahead."""
        size = 0
        files = chain.from_iterable(batches(self.entries, first, count))
        with closing(self._read(files)) as contents:
            for done, (file, data) in enumerate(contents):
                if data is not None:
                    written_size = len(data)
                    writer.append(data.data)
                else:
                    pieces = self._tree.pieces(self._inos[file])
                    written_size = writer.append_pieces(ticking(tick, done, size, pieces))
                if written_size != self._sizes[file]:
                    raise self._size_error(file, written_size)
                size += written_size
                tick(done + 1, size)

    def digests(self, files: Sequence[int], jobs: int) -> Iterator[bytes]:
        records = np.array(self._records, np.uint64)[files]
        _, firsts, groups, counts = np.unique(
            records, return_index=True, return_inverse=True, return_counts=True
        )
        is_first = firsts[groups] == np.arange(len(files))
        known: dict[int, bytes] = {}  # by record, if it has several names
        with closing(self._read(np.array(files)[is_first].tolist())) as contents:
            for number, group in enumerate(groups.tolist()):
                if not is_first[number]:
                    yield known[group]
                    continue
                digest = self._digest(*next(contents))
                if counts[group] > 1:
                    known[group] = digest
                yield digest

    def close(self) -> None:
        self._tree.close()

    def _read(self, files: Iterable[int]) -> Generator[_Content, None, None]:
        """Yield each file and its bytes, verified."""
        with ThreadPoolExecutor(1) as pool:
            ahead: Future[list[_Content]] | None = None
            for batch in in_batches(files, self._size_of, _BATCH_SIZE, _BATCH_COUNT):
                reading = pool.submit(self._contents, batch)
                if ahead is not None:
                    yield from ahead.result()
                ahead = reading
            if ahead is not None:
                yield from ahead.result()

    def _size_of(self, file: int) -> int:
        return int(self._sizes[file])

    def _contents(self, batch: list[int]) -> list[_Content]:
        if self._sizes[batch[0]] > _BATCH_SIZE:
            return [_Content(batch[0], None)]
        data = self._tree.read_files([self._inos[file] for file in batch])
        return list(map(_Content, batch, data))

    def _digest(self, file: int, data: RecordBytes | None) -> bytes:
        return digest_of(self._tree.pieces(self._inos[file]) if data is None else [data.data])

    def _size_error(self, file: int, size: int) -> FormatError:
        path = self._tree.path(self._inos[file])
        return FormatError.at(
            self.name, f"bad index: {quoted(path)} has {size} bytes, not {self._sizes[file]}"
        )

    def _walk(self) -> None:
        tree = self._tree
        root = _Place(b"", "", tree.folder_ino(""), self._selection.root, False)
        tree.check_depth(root.ino)
        if (stored := tree.stored(root.ino)) is not None:
            self.entries.describe_folder(0, *stored)
        walk(_open_folder(root, 0), self.entries, self._list, self._enter)
        self._selection.check_matched(self.name)

    def _enter(self, stack: list[_OpenFolder], place: _Place) -> _OpenFolder:
        parent = stack[-1]
        if any(above.place.ino == place.ino for above in stack):
            raise self._refusal(place.path, "is a symbolic link that makes a loop; exclude it")
        number = self.entries.add_folder(parent.number, place.name, *self._stored(place.ino))
        return _open_folder(place, number)

    def _list(self, folder: _OpenFolder) -> None:
        """Add the names of a directory; the directories among them come later."""
        selection = self._selection
        at = folder.place
        takes_whole = selection.takes_whole(at.wanted)
        above = f"{at.path}/" if at.path else ""
        start = 0
        while listed := self._tree.volume.list(at.ino, start, _LIST_COUNT):
            start += len(listed)
            files: _Files = []
            for name, kind in listed:
                text = os.fsdecode(name)
                wanted: Wanted | None = at.wanted
                if not takes_whole:
                    wanted = selection.step(at.wanted, text, above + text)
                if wanted is not None:
                    place = _Place(name, above + text, kind.ino, wanted, at.is_behind_link)
                    self._take(folder, place, kind, files)
            if files:
                self.entries.add_files(folder.number, files)
        folder.folders.reverse()

    def _take(self, folder: _OpenFolder, place: _Place, kind: Attributes, files: _Files) -> None:
        if stat.S_ISLNK(kind.mode) and self._symlinks in ("inside", "follow"):
            followed = self._follow(place)
            if followed is None:
                return
            place, kind = followed
        is_folder = stat.S_ISDIR(kind.mode)
        if not place.wanted.is_asked_for and not is_folder:
            return
        if stat.S_ISLNK(kind.mode) and self._symlinks == "skip":
            self.links.left_out += 1
            return
        if place.is_behind_link:
            self._count_behind_links(place)
        if not self._has_good_name(place):
            return
        if is_folder:
            folder.folders.append(place)
            return
        folder.is_empty = False
        if stat.S_ISLNK(kind.mode):
            target = self._tree.volume.target(place.ino)
            self.entries.add_link(folder.number, place.name, target, self._stored(place.ino)[1])
            return
        record = self._tree.volume.record(place.ino)
        assert record is not None
        files.append((place.name, kind.size, *self._stored(place.ino)))
        self._inos.append(place.ino)
        self._records.append(record[0])
        if self._selection.has_list:
            self._lines.append(place.wanted.line or 0)

    def _follow(self, link: _Place) -> tuple[_Place, Attributes] | None:
        """Return the entry to list in the place of a link; None: it is not selected."""
        ino = follow(self._tree.volume, os.fsencode(link.path))
        kind = self._tree.volume.attributes(ino)
        # A listed or included path may be behind a link to a directory.
        if not link.wanted.is_asked_for and (kind is None or not stat.S_ISDIR(kind.mode)):
            return None
        if kind is None:
            raise self._refusal(
                link.path,
                f"is a symbolic link to {quoted(self._tree.target(link.ino))}, which is not in the "
                "pack; exclude it, or keep or skip links by --symlinks",
            )
        self.links.followed += 1
        return link._replace(ino=ino, is_behind_link=True), kind

    def _count_behind_links(self, place: _Place) -> None:
        self._behind_links_count += 1
        if self._behind_links_count > SHOWN_THROUGH_LINKS_LIMIT:
            many = f"{SHOWN_THROUGH_LINKS_LIMIT:,} behind links"
            raise self._refusal(place.path, f"is one of over {many}; keep the links")

    def _stored(self, ino: int) -> tuple[int, int]:
        """Return the packed permissions and time, or the values that mean unknown."""
        return self._tree.stored(ino) or (0, UNKNOWN_TIME_NS)

    def _has_good_name(self, place: _Place) -> bool:
        try:
            place.name.decode()
        except UnicodeDecodeError:
            if not self._skip_special:
                # `add` and `rm` come here, too, and have no options of `pack`.
                raise self._refusal(
                    place.path,
                    "the name is not UTF-8; remove it (ffrfs rm), or leave it out of a new pack "
                    "(ffrfs pack --exclude, or --skip-special)",
                ) from None
            self.skipped.append(self.shown(place.path))
            return False
        return True

    def _refusal(self, path: str, reason: str) -> PackError:
        return PackError(f"{self.shown(path)}: {reason}")


def _open_folder(place: _Place, number: int) -> _OpenFolder:
    return OpenFolder(place, number, is_asked_for=place.wanted.is_asked_for)


def _refuse_own_set(pack: str, forbidden: FolderIdentity | None) -> None:
    if os.path.isdir(pack) and FolderIdentity.of(os.stat(pack)) == forbidden:
        raise PackError(f"{pack}: the new pack would be in this set; write it elsewhere")


def refuse_other_records(tree: PackTree) -> None:
    """Raise PackError if the files are no packed directories."""
    if not tree.volume.is_folder:
        kind = "TFRecord" if tree.volume.is_examples else "plain FFRecord"
        raise PackError(
            f"{tree.file}: is a {kind} file, not a pack (a packed directory); convert it first: "
            "ffrfs convert"
        )
