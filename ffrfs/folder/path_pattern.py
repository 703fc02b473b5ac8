"""Paths of a pack that match a pattern, as pathlib and glob match them.

`*`, `?` and `[…]` match within a name, also one that begins with a dot; `**` matches any
number of directories, and does not pass through links. Parts without any of them are looked
up, without listing the directory. Each path comes once, in the order of the tree.

Not here: matching a name (fnmatch). Concurrency: no state; any thread.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ffrfs.printable import quoted

if TYPE_CHECKING:
    from ffrfs._native import Attributes
    from ffrfs.folder.tree import PackTree, PathType

_MAGIC = re.compile(r"[*?[]")
_ANY_DEPTH = "**"

# The parts of the pattern that may come next, by number; the number of parts: it may end here.
_Places = frozenset[int]


class _Child(NamedTuple):
    path: str
    name: str
    attributes: Attributes  # for a link that is followed, those of its target
    is_link: bool  # and is followed

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.attributes.mode)


class _Level(NamedTuple):
    """A directory that is being searched."""

    children: Iterator[_Child]
    places: _Places


def is_pattern(text: str) -> bool:
    return _MAGIC.search(text) is not None


def matching(tree: PackTree, pattern: PathType, *, follow_links: bool = True) -> Iterator[str]:
    """Yield the matching paths; links without a target are left out.

    Without `follow_links`, links are links: all of them match, and nothing is below them.
    Raises ValueError for an empty pattern, at once, and FormatError as
    PackTree.entries().
    """
    text = os.fspath(pattern)
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if not parts:
        raise ValueError(f"pattern {quoted(text)} names no file or directory")
    if ".." in parts:
        return iter(())
    # Several ** in a row mean the same as one.
    parts = [part for i, part in enumerate(parts) if parts[i : i + 2] != [_ANY_DEPTH] * 2]
    return _Search(tree, parts, folders_only=text.endswith("/"), follow_links=follow_links).run()


class _Search:
    def __init__(
        self, tree: PackTree, parts: list[str], *, folders_only: bool, follow_links: bool
    ) -> None:
        self._tree = tree
        self._parts = parts
        self._folders_only = folders_only
        self._follow_links = follow_links
        self._patterns = [
            re.compile(fnmatch.translate(part)) if _MAGIC.search(part) else None for part in parts
        ]

    def run(self) -> Iterator[str]:
        if _ANY_DEPTH in self._parts:
            self._tree.check_depth(self._tree.find(""))
        root = self._tree.attributes("")
        levels = [self._level("", root, self._with_skipped({0}))]
        while levels:
            children, places = levels[-1]
            child = next(children, None)
            if child is None:
                levels.pop()
                continue
            found = self._after(child.name, places)
            if child.is_folder:  # ** may match the directory itself
                found |= self._with_skipped(found)
            elif self._folders_only:
                found = set()
            if len(self._parts) in found:
                yield child.path
            if child.is_folder:
                # ** does not pass a link: a link to a directory above would never end.
                into = self._after(child.name, places, any_depth=not child.is_link)
                below = self._with_skipped(into) - {len(self._parts)}
                if below:
                    levels.append(self._level(f"{child.path}/", child.attributes, below))

    def _with_skipped(self, places: set[int]) -> _Places:
        """Return the places with those behind `**`, which may match no directory at all."""
        found = set(places)
        for place in places:
            if place < len(self._parts) and self._parts[place] == _ANY_DEPTH:
                found.add(place + 1)
        return frozenset(found)

    def _after(self, name: str, places: _Places, any_depth: bool = True) -> set[int]:
        """Return the places that may come below the directory or file `name`."""
        found = set()
        for place in places:
            if place == len(self._parts):
                continue
            if self._parts[place] == _ANY_DEPTH:
                found |= {place} if any_depth else set()
                found |= {place + 1} & {len(self._parts)}  # the name itself
            elif self._matches(name, place):
                found.add(place + 1)
        return found

    def _matches(self, name: str, place: int) -> bool:
        pattern = self._patterns[place]
        return name == self._parts[place] if pattern is None else bool(pattern.match(name))

    def _level(self, prefix: str, folder: Attributes, places: _Places) -> _Level:
        if all(self._patterns[place] is None for place in places):
            names = sorted({self._parts[place] for place in places})
            return _Level(self._looked_up(prefix, names), places)
        return _Level(self._listed(prefix, folder), places)

    def _looked_up(self, prefix: str, names: list[str]) -> Iterator[_Child]:
        for name in names:
            yield from self._child(prefix, name, is_link=False)

    def _listed(self, prefix: str, folder: Attributes) -> Iterator[_Child]:
        for entry in self._tree.entries(folder.ino):
            if entry.is_link and self._follow_links:
                yield from self._child(prefix, entry.path, is_link=True)
            else:
                yield _Child(prefix + entry.path, entry.path, entry.attributes, is_link=False)

    def _child(self, prefix: str, name: str, is_link: bool) -> Iterator[_Child]:
        """Yield the entry of that name, if it exists."""
        ino = self._tree.find(prefix + name, self._follow_links)
        attributes = self._tree.volume.attributes(ino)
        if attributes is not None:
            yield _Child(prefix + name, name, attributes, is_link)
