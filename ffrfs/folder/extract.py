"""extract: writes files of a pack as ordinary files.

Small files are read in batches, large ones in pieces: memory is bounded, except for the
names of directories and links. A damaged file is reported and the others are written. Links are
made after all files, and directories get their permissions and times last, also those of an
extraction that is ended: until then no other user may enter them.

Not here: making a file in its place (destination.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from ffrfs.errors import ChecksumError, OptionError
from ffrfs.folder.destination import Destination, Existing, Stored
from ffrfs.folder.progress import Progress
from ffrfs.folder.tree import DamagedFolder, Entry, OnConflict, PackTree, PathType

if TYPE_CHECKING:
    from typing_extensions import Buffer

_SMALL_SIZE = 1 << 20  # files up to this size are read whole
_BATCH_SIZE = 16 << 20
_BATCH_COUNT = 1024


def extract(  # noqa: PLR0913 - source, destination and options
    pack: PathType | Sequence[PathType],
    destination: PathType,
    paths: PathType | Sequence[PathType] = (),
    *,
    on_conflict: OnConflict = "error",
    allow_missing: bool = False,
    existing: Existing = "error",
    on_error: Literal["raise", "skip"] = "raise",
    progress: Progress | None = None,
) -> list[str]:
    """Write `paths` of `pack` (none: all files) below the directory `destination`.

    Files get the packed modes, times and links, under their whole paths. `pack`: as
    `PackedFolder` takes it, or TFRecord. No file is written elsewhere.
    `existing`: files that exist are an error, are left as they are ("skip": the same call goes
    on where another was ended), or are replaced. With "skip", directories that exist get the
    packed modes and times, too, if they are this user's.
    `progress`: called with files done, files in all, bytes done, bytes in all; 0 in all:
    unknown.

    Damaged files are left out and all others written; then it raises ChecksumError, which
    names the first and counts the others, or with `on_error="skip"` returns a list with a
    line for each. Raises PathNotFoundError and FormatError before anything is written;
    FileExistsError at the first existing file; files that were written before stay.
    """
    if on_error not in ("raise", "skip"):
        raise OptionError(f'on_error is "raise" or "skip", not {on_error!r}')
    wanted = [paths] if isinstance(paths, str | os.PathLike) else paths
    with PackTree(pack, on_conflict=on_conflict, allow_missing=allow_missing) as tree:
        bad = extract_tree(tree, destination, wanted, progress, existing)
    if bad and on_error == "raise":
        more = f" (and {len(bad) - 1:,} more damaged files)" if len(bad) > 1 else ""
        raise ChecksumError(f"{bad[0]}{more}")
    return bad


def extract_tree(
    tree: PackTree,
    destination: PathType,
    paths: Sequence[PathType] = (),
    progress: Progress | None = None,
    existing: Existing = "error",
) -> list[str]:
    """Write `paths` (none: all files) below the directory `destination`, under their full paths.

    Returns a text for each damaged file; these are left out. Raises PathNotFoundError, and
    FormatError for directories that are too deep, before anything is written; FileExistsError
    at the first existing file, and any OSError: files that were written before stay.
    """
    roots = _roots(tree, paths or [""])
    for root in roots:
        tree.check_depth(tree.find(root))

    def stored_of(folder: str) -> Stored | None:
        return _stored(tree, tree.find(folder))

    with Destination(os.fspath(destination), existing, stored_of) as target:
        extraction = _Extraction(tree, target, progress)
        is_whole = False
        try:
            # Counting the files of an Example would read its record.
            if progress is not None and not tree.volume.is_examples:
                extraction.count_all(_entries(tree, roots))
            extraction.run(_entries(tree, roots, extraction.leave_out))
            is_whole = True
        finally:
            target.describe_folders(is_whole=is_whole)
        return extraction.bad


def _stored(tree: PackTree, ino: int) -> Stored | None:
    stored = tree.stored(ino)
    return None if stored is None else Stored(*stored)


def _roots(tree: PackTree, paths: Sequence[PathType]) -> list[str]:
    """Return `paths` in the spelling of the tree, without paths below others."""
    given = {tree.path(tree.attributes(path).ino) for path in paths}
    return sorted(path for path in given if given.isdisjoint(_folders_above(path)))


def _folders_above(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path


def _entries(
    tree: PackTree, roots: list[str], damaged: DamagedFolder | None = None
) -> Iterator[Entry]:
    for root in roots:
        top = Entry(root, tree.attributes(root))
        yield top
        if top.is_folder:
            prefix = f"{root}/" if root else ""
            for entry in tree.entries(top.attributes.ino, recursive=True, damaged=damaged):
                yield Entry(prefix + entry.path, entry.attributes)


class _Extraction:
    def __init__(self, tree: PackTree, target: Destination, progress: Progress | None) -> None:
        self.bad: list[str] = []
        self._tree = tree
        self._target = target
        self._progress = progress
        self._batch: list[Entry] = []
        self._batch_size = 0
        self._links: list[Entry] = []
        self._done_count = self._done_size = 0
        self._total_count = self._total_size = 0

    def count_all(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if not entry.is_folder:
                self._total_count += 1
                self._total_size += 0 if entry.is_link else entry.attributes.size

    def run(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if entry.is_folder:
                self._target.folder(entry.path)
            elif self._target.is_left(entry.path):
                self._count(entry, 0 if entry.is_link else entry.attributes.size)
            elif entry.is_link:
                self._links.append(entry)
            elif entry.attributes.size > _SMALL_SIZE:
                self._flush()
                self._write_large(entry)
            else:
                self._batch.append(entry)
                self._batch_size += entry.attributes.size
                if self._batch_size >= _BATCH_SIZE or len(self._batch) >= _BATCH_COUNT:
                    self._flush()
        self._flush()
        for entry in self._links:
            target = self._tree.target(entry.attributes.ino)
            self._target.link(entry.path, target, self._stored(entry))
            self._count(entry, 0)

    def _stored(self, entry: Entry) -> Stored | None:
        return _stored(self._tree, entry.attributes.ino)

    def leave_out(self, error: ChecksumError) -> None:
        self.bad.append(str(error))

    def _flush(self) -> None:
        batch, self._batch, self._batch_size = self._batch, [], 0
        if not batch:
            return
        try:
            contents = self._tree.read_files([entry.attributes.ino for entry in batch])
        except ChecksumError:
            for entry in batch:
                self._write_large(entry)
            return
        for entry, content in zip(batch, contents, strict=True):
            self._target.write(entry.path, [content.data], self._stored(entry))
            self._count(entry, entry.attributes.size)

    def _write_large(self, entry: Entry) -> None:
        try:
            self._target.write(entry.path, self._counted_pieces(entry), self._stored(entry))
        except ChecksumError as error:
            self.leave_out(error)
        self._count(entry, 0)

    def _counted_pieces(self, entry: Entry) -> Iterator[Buffer]:
        for piece in self._tree.pieces(entry.attributes.ino):
            yield piece
            self._done_size += len(piece)
            self._tell()

    def _count(self, entry: Entry, size: int) -> None:
        self._done_count += 1
        self._done_size += size
        self._tell()

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self._done_count, self._total_count, self._done_size, self._total_size)
