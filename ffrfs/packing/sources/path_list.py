"""The list of paths of `--files-from`, as a tree that a walk follows.

A path is relative to the source. A directory means all that is below it. A path that is listed
twice counts once, by its first line. A line takes about 150 bytes of memory.

Not here: patterns (selection.py). Concurrency: one thread; a list serves one packing, because it
remembers which paths were found.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Self, TypeAlias

from ffrfs.errors import PackError
from ffrfs.printable import quoted

STANDARD_INPUT = "-"

_PIECE_SIZE = 1 << 20
_LINE_SIZE_MAX = 1 << 16


class ListedFolder:
    """A directory that is listed, or that is above a listed path."""

    __slots__ = ("children", "line")

    def __init__(self, line: int = 0) -> None:
        self.line = line  # its line; 0: it is not listed; negative: it was found
        self.children: dict[str, ListedNode] = {}


# A name without listed paths below it is its line alone, negative once it was found.
ListedNode: TypeAlias = int | ListedFolder


class PathList:
    """The paths `paths`; errors call the list `name` and each path "UNIT NUMBER".

    Raises PackError for a path that is absolute or leads upwards.
    """

    def __init__(
        self, paths: Iterable[str | os.PathLike[str]], name: str = "files", unit: str = "item"
    ) -> None:
        if isinstance(paths, str):
            raise TypeError(f"files are a list of paths, not one string: {paths!r}")
        self.root = ListedFolder()
        digest = hashlib.sha256()
        self._name = name
        self._unit = unit
        for line, path in enumerate(paths, 1):
            if text := os.fspath(path):
                self._add(line, text)
                digest.update(os.fsencode(text) + b"\0")
        self.digest = digest.hexdigest()  # the same for equal lists

    @classmethod
    def read(cls, file: str, *, null: bool = False) -> Self:
        """Read a list with one path a line, or with a zero byte behind each; "-": standard input.

        Raises PackError, OSError.
        """
        if file == STANDARD_INPUT:
            return cls(_lines(sys.stdin.buffer, "standard input", null), "standard input", "line")
        with open(file, "rb") as stream:
            return cls(_lines(stream, file, null), file, "line")

    def has(self, path: str) -> bool:
        """Return whether `path` is listed, or a directory above it."""
        node: ListedNode = self.root
        for step in path.split("/"):
            if not isinstance(node, ListedFolder) or node.line:
                break
            node = node.children.get(step, 0)
        return bool(node.line if isinstance(node, ListedFolder) else node)

    def check_found(self, place: str) -> None:
        """Raise PackError for the first path that no walk has found: it is not in `place`."""
        missing = min(_unfound(self.root, ""), default=None)
        if missing is not None:
            line, path = missing
            raise PackError(f"{self._where(line, path)} is not in {place}, or is excluded")

    def _add(self, line: int, path: str) -> None:
        if path.startswith("/"):
            raise PackError(f"{self._where(line, path)} is absolute; name it below what is packed")
        steps = [step for step in path.split("/") if step not in ("", ".")]
        if ".." in steps:
            raise PackError(f'{self._where(line, path)} leads upwards, by ".."')
        if not steps:
            self.root.line = self.root.line or line
            return
        folder = self.root
        for step in steps[:-1]:
            child = folder.children.get(step)
            if not isinstance(child, ListedFolder):
                child = folder.children[step] = ListedFolder(child or 0)
            folder = child
        last = folder.children.setdefault(steps[-1], line)
        if isinstance(last, ListedFolder):
            last.line = last.line or line

    def _where(self, line: int, path: str) -> str:
        return f"{self._name}: {self._unit} {line}: {quoted(path)}"


def find(folder: ListedFolder, name: str) -> tuple[int, ListedFolder | None]:
    """Return the line of `name` in `folder` (0: none), and the listed paths below it.

    Marks it as found.
    """
    child = folder.children.get(name, 0)
    if isinstance(child, ListedFolder):
        line = abs(child.line)
        child.line = -line
        return line, child
    if child > 0:
        folder.children[name] = -child
    return abs(child), None


def lose(folder: ListedFolder, name: str) -> None:
    """Undo find() for a path that has vanished since: a list says what must exist."""
    child = folder.children.get(name, 0)
    if isinstance(child, ListedFolder):
        child.line = abs(child.line)
    elif child:
        folder.children[name] = abs(child)


def _unfound(root: ListedFolder, path: str) -> Iterator[tuple[int, str]]:
    stack = [(path, root)]
    while stack:
        above, folder = stack.pop()
        for name, child in folder.children.items():
            line = child.line if isinstance(child, ListedFolder) else child
            if line > 0:
                yield line, above + name
            if isinstance(child, ListedFolder):
                stack.append((f"{above}{name}/", child))


def _lines(stream: BinaryIO, name: str, null: bool) -> Iterator[str]:
    """Yield each line, also empty ones, so that they can be counted."""
    end = b"\0" if null else b"\n"
    pending = b""
    while piece := stream.read(_PIECE_SIZE):
        *lines, pending = (pending + piece).split(end)
        yield from (_text(line, null) for line in lines)
        if len(pending) > _LINE_SIZE_MAX:
            raise PackError(f"{name}: not a list of paths: one is longer than 64 KiB")
    yield _text(pending, null)


def _text(line: bytes, null: bool) -> str:
    return os.fsdecode(line if null else line.removesuffix(b"\r"))
