"""Finds the files of a plan that cannot be packed as they were listed, and why.

This runs when a shard could not be made: each of its files is read.

Not here: the consequences (pack_task.py). Concurrency: any thread; no state.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import closing

from ffrfs.cluster.objects import pins_of
from ffrfs.cluster.piece import Piece
from ffrfs.cluster.request import Kind
from ffrfs.cluster.row import Missing
from ffrfs.errors import ChecksumError, FormatError, RemoteDeniedError, text_within
from ffrfs.files.closing import closing_fd
from ffrfs.packing.sources.contents import Symlinks, storable_time_ns
from ffrfs.packing.sources.folder_lister import is_elsewhere, real_path
from ffrfs.packing.sources.options import PackOptions
from ffrfs.remote.bucket import pin_of
from ffrfs.remote.settings import RemoteSettings

_READ_SIZE = 1 << 20


def faults_of(
    kind: Kind, sources: Sequence[str], options: PackOptions, pieces: Iterable[Piece]
) -> list[Missing]:
    """Return the files that cannot be packed as they were listed; none: the fault is elsewhere."""
    if kind == "packs":
        return _damaged(sources, options, pieces)
    if kind == "archive":
        return []
    if kind == "objects":
        return _changed_objects(sources[0], pieces)
    listed = _Listed(sources[0], options.symlinks or "inside")
    found = []
    for piece in pieces:
        for number in range(piece.file_count):
            path = piece.path(number)
            reason = listed.fault_of(path, piece.sizes[number], piece.mtimes_ns[number])
            if reason is not None:
                found.append(Missing(path, reason))
    return found


class _Listed:
    """The directory whose files were listed, by a rule for links."""

    def __init__(self, root: str, symlinks: Symlinks) -> None:
        self._root = root
        self._real_root = os.path.realpath(root)
        self._symlinks = symlinks

    def fault_of(self, path: str, size: int, mtime_ns: int) -> str | None:
        try:
            # O_NONBLOCK: a FIFO that has replaced the file must not block the thread.
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
            with closing_fd(os.open(os.path.join(self._root, path), flags)) as fd:
                fault, real = _fault_of(fd, size, mtime_ns), real_path(fd)
        except OSError as error:
            return error.strerror or str(error)
        # The packer follows no other links than the lister.
        if fault is None and is_elsewhere(real, self._real_root, path, self._symlinks):
            return "is behind a symbolic link by now"
        return fault


def _fault_of(fd: int, size: int, mtime_ns: int) -> str | None:
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        return "is no longer a regular file"
    if info.st_size != size:
        return f"has {info.st_size} bytes, and had {size} when it was listed"
    if storable_time_ns(info.st_mtime_ns) != mtime_ns:
        return "was changed after it was listed"
    while os.read(fd, _READ_SIZE):
        pass
    return None


def _changed_objects(root: str, pieces: Iterable[Piece]) -> list[Missing]:
    settings = RemoteSettings.from_environment()
    found = []
    for piece in pieces:
        for path, pin in pins_of(piece, root):
            try:
                now = pin_of(pin.url, settings)
            except RemoteDeniedError as error:
                found.append(Missing(path, error.reason or str(error)))
                continue
            if now is None:
                found.append(Missing(path, "No such object"))
            elif (now.size, now.etag) != (pin.size, pin.etag):
                found.append(Missing(path, "was changed after it was listed"))
    return found


def _damaged(packs: Sequence[str], options: PackOptions, pieces: Iterable[Piece]) -> list[Missing]:
    from ffrfs.folder.tree import PackTree

    found = []
    tree = PackTree(packs, on_conflict=options.on_conflict, allow_missing=options.allow_missing)
    with closing(tree):
        for piece in pieces:
            for path in map(piece.path, range(piece.file_count)):
                try:
                    for _ in tree.pieces(tree.file_ino(path)):
                        pass
                except (FormatError, ChecksumError) as error:
                    found.append(Missing(path, text_within(error, tree.file)))
    return found
