"""compare: the differences between two trees, packs or directories, without unpacking either.

Both are walked in the same order, so memory does not grow with them. Packs know the checksums of
their files; a file of a directory, or one that shares a record, is read.

Concurrency: one thread.
"""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from ffrfs._native import crc32
from ffrfs.errors import naming
from ffrfs.folder.tree import PackTree

_PIECE_SIZE = 1 << 20

Kind: TypeAlias = Literal["directory", "link", "file", "special file"]


class Difference(NamedTuple):
    path: str
    where: Literal["first", "second", "both"]
    reason: str  # the difference, if the path is in both


class _Node(NamedTuple):
    path: str
    kind: Kind
    size: int
    target: str  # of a link
    checksum: Callable[[], int]

    @property
    def place(self) -> list[bytes]:
        """The order of the walk: by the bytes of the names, level by level."""
        return os.fsencode(self.path).split(b"/")


def compare(first: PackTree | str, second: PackTree | str) -> Iterator[Difference]:
    """Yield the differences of two trees, in the order of the paths. A string is a directory.

    Names, kinds, sizes, contents and targets of links are compared; not times and permissions.
    Raises OSError for a file that cannot be read, ChecksumError for a damaged one.
    """
    left, right = _walk(first), _walk(second)
    a, b = next(left, None), next(right, None)
    while a is not None or b is not None:
        if b is None or (a is not None and a.place < b.place):
            assert a is not None
            yield Difference(a.path, "first", "")
            a = next(left, None)
        elif a is None or b.place < a.place:
            yield Difference(b.path, "second", "")
            b = next(right, None)
        else:
            if reason := _reason(a, b):
                yield Difference(a.path, "both", reason)
            a, b = next(left, None), next(right, None)


def _reason(a: _Node, b: _Node) -> str:
    if a.kind != b.kind:
        return f"{a.kind}, {b.kind}"
    if a.kind == "link":
        return "" if a.target == b.target else "targets differ"
    if a.size != b.size:
        return f"{a.size:,} and {b.size:,} bytes"
    return "contents differ" if a.kind == "file" and a.checksum() != b.checksum() else ""


def _walk(side: PackTree | str) -> Iterator[_Node]:
    return _folder(side) if isinstance(side, str) else _pack(side)


def _pack(tree: PackTree) -> Iterator[_Node]:
    for entry in tree.entries(tree.folder_ino(""), recursive=True):
        ino = entry.attributes.ino
        kind: Kind = "directory" if entry.is_folder else "link" if entry.is_link else "file"
        size = entry.attributes.size if kind == "file" else 0
        checksum = functools.partial(_stored, tree, ino)
        yield _Node(entry.path, kind, size, tree.target(ino), checksum)


def _stored(tree: PackTree, ino: int) -> int:
    record = tree.volume.record(ino)
    if record is not None and record[1] is not None:
        return record[1]
    crc = 0
    for piece in tree.pieces(ino):
        crc = crc32(piece, crc)
    return crc


def _folder(root: str) -> Iterator[_Node]:
    stack = [_entries(root, "")]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
            continue
        yield node
        if node.kind == "directory":
            stack.append(_entries(root, node.path))


def _entries(root: str, below: str) -> Iterator[_Node]:
    with os.scandir(os.path.join(root, below)) as found:
        entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
    for entry in entries:
        path = f"{below}/{entry.name}" if below else entry.name
        info = entry.stat(follow_symlinks=False)
        kind = _kind_of(info.st_mode)
        size = info.st_size if kind == "file" else 0
        target = os.readlink(entry.path) if kind == "link" else ""
        yield _Node(path, kind, size, target, functools.partial(_read, entry.path))


def _kind_of(mode: int) -> Kind:
    if stat.S_ISLNK(mode):
        return "link"
    if stat.S_ISDIR(mode):
        return "directory"
    return "file" if stat.S_ISREG(mode) else "special file"  # to read a FIFO would wait for ever


def _read(file: str) -> int:
    crc = 0
    with naming(file), open(file, "rb") as stream:
        while piece := stream.read(_PIECE_SIZE):
            crc = crc32(piece, crc)
    return crc
