"""The tree of an archive as a list to pack, its symbolic links followed, kept or left out.

A link is followed within the archive, as if the archive had been unpacked: to a file, whose record
it then shares, or to a directory, whose content is listed again in its place.

Not here: the tree (archive_tree.py).
"""

from __future__ import annotations

import os
from array import array
from collections import deque
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from ffrfs._native import EntryList
from ffrfs.errors import PackError
from ffrfs.packing.sources.archive_tree import ArchiveTree, Folder, Link, Node
from ffrfs.packing.sources.contents import LinkCounts
from ffrfs.packing.sources.folder_lister import SHOWN_THROUGH_LINKS_LIMIT, OpenFolder, walk
from ffrfs.printable import quoted

_LINKS_LIMIT = 40  # in one path, as in Linux

_Trail = tuple[Folder, ...]  # from the root to a directory, without links


class _Place(NamedTuple):
    """A place in the list at which a directory of the tree is shown."""

    name: bytes
    path: bytes  # b"a/b/"; of the root b""
    trail: _Trail
    is_behind_link: bool


_OpenFolder: TypeAlias = OpenFolder[_Place, _Place]


class ArchiveList:
    """Makes `entries` of `tree`. Raises PackError for links that cannot be followed."""

    def __init__(self, tree: ArchiveTree) -> None:
        self.entries = EntryList()
        self.origins = array("Q")  # for each file of the list its file of the tree
        # For each file of the tree its first file of the list; -1: none.
        self._numbers = array("q", [-1]) * len(tree.sizes)
        self._others = array("Q")  # files of the list whose file of the tree is listed already
        self._tree = tree
        self._shown_through_links = 0
        self.links = LinkCounts()
        self._walk()

    def share(self) -> None:
        """Let all files of the list that are one file of the tree share its record."""
        for other in self._others:
            self.entries.share(other, self._numbers[self.origins[other]])

    def number(self) -> None:
        """Number the records in the order of the archive."""
        self.entries.number_by(self._numbers)

    def _walk(self) -> None:
        root = self._tree.root
        if root.mode:
            self.entries.describe_folder(0, root.mode, root.mtime_ns)
        place = _Place(b"", b"", (root,), False)
        opened = OpenFolder[_Place, _Place](place, 0, is_asked_for=True)
        walk(opened, self.entries, self._fill, self._enter)

    def _enter(self, stack: list[_OpenFolder], place: _Place) -> _OpenFolder:
        parent = stack[-1]
        folder = place.trail[-1]
        if any(above.place.trail[-1] is folder for above in stack):
            raise self._refusal(place.path[:-1], "is a symbolic link that makes a loop")
        number = self.entries.add_folder(parent.number, place.name, folder.mode, folder.mtime_ns)
        return OpenFolder(place, number, is_asked_for=folder.is_wanted)

    def _fill(self, opened: _OpenFolder) -> None:
        """Add the names of a directory; the directories among them come later."""
        place = opened.place
        files: list[tuple[bytes, int]] = []
        for name, child in sorted(place.trail[-1].children.items(), key=itemgetter(0)):
            node: Node = child
            trail = place.trail
            is_behind_link = place.is_behind_link
            if isinstance(node, Link) and self._tree.symlinks == "skip":
                self.links.left_out += 1
                continue
            if isinstance(node, Link) and self._tree.symlinks != "keep":
                node, trail = self._follow(place, name, node)
                is_behind_link = True
                self.links.followed += 1
            elif isinstance(node, Folder):
                trail = (*trail, node)
            if is_behind_link:
                self._count(place.path + name)
            if isinstance(node, Folder):
                below = _Place(name, place.path + name + b"/", trail, is_behind_link)
                opened.folders.append(below)
                continue
            opened.is_empty = False
            if isinstance(node, Link):
                self.entries.add_link(opened.number, name, node.target, node.mtime_ns)
            else:
                files.append((name, node))
        opened.folders.reverse()
        self._add(opened, files)

    def _add(self, folder: _OpenFolder, files: list[tuple[bytes, int]]) -> None:
        tree = self._tree
        first = self.entries.add_files(
            folder.number,
            ((name, tree.sizes[i], tree.modes[i], tree.times_ns[i]) for name, i in files),
        )
        for number, (_, origin) in enumerate(files, first):
            self.origins.append(origin)
            if self._numbers[origin] < 0:
                self._numbers[origin] = number
            else:
                self._others.append(number)

    def _follow(self, place: _Place, name: bytes, link: Link) -> tuple[Node, _Trail]:
        """Return the target of a link in `place` and, if that is a directory, its trail."""
        trail = list(place.trail)
        way = deque(_steps(link.target))
        links_left = _LINKS_LIMIT
        node: Node | None = None if link.target.startswith(b"/") else trail[-1]
        while way and node is not None:
            step = way.popleft()
            if not isinstance(node, Folder):
                node = None
            elif step == b"..":
                trail.pop()
                node = trail[-1] if trail else None
            else:
                node = node.children.get(step)
                if isinstance(node, Folder):
                    trail.append(node)
                elif isinstance(node, Link):
                    links_left -= 1
                    leads_away = node.target.startswith(b"/") or links_left == 0
                    way.extendleft(reversed(_steps(node.target)))
                    node = None if leads_away else trail[-1]
        if node is None:
            raise self._refusal(
                place.path + name,
                f"is a symbolic link to {quoted(os.fsdecode(link.target))}, which "
                "is not among the packed files; exclude it, or keep or skip links by --symlinks",
            )
        return node, tuple(trail)

    def _count(self, path: bytes) -> None:
        self._shown_through_links += 1
        if self._shown_through_links > SHOWN_THROUGH_LINKS_LIMIT:
            raise self._refusal(
                path, f"is one of over {SHOWN_THROUGH_LINKS_LIMIT:,} behind links; keep the links"
            )

    def _refusal(self, path: bytes, reason: str) -> PackError:
        return self._tree.refusal(path.decode(), reason)


def _steps(target: bytes) -> list[bytes]:
    return [step for step in target.split(b"/") if step not in (b"", b".")]
