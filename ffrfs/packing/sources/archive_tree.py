"""The members of an archive as a tree.

An archive lists its members in any order, and may hold any names and links: members that cannot
be the content of a directory are refused, by name. Names and links lead only to members of the
archive.

Not here: reading archives (archive.py), names (archive_path.py), the list, and following
links (archive_list.py). Concurrency: one thread.
"""

from __future__ import annotations

from array import array
from typing import TypeAlias

from ffrfs.errors import PackError
from ffrfs.packing.sources.archive_member import TARGET_LIMIT, Kind, Member
from ffrfs.packing.sources.archive_path import BadNameError, parts_of
from ffrfs.packing.sources.contents import UNKNOWN_TIME_NS
from ffrfs.packing.sources.options import PackOptions
from ffrfs.packing.sources.selection import Selection
from ffrfs.printable import quoted

_SIZE_MAX = (1 << 63) - 1


class Link:
    """A symbolic link."""

    __slots__ = ("mtime_ns", "target")

    def __init__(self, target: bytes, mtime_ns: int) -> None:
        self.target = target
        self.mtime_ns = mtime_ns


class Folder:
    """A directory; `is_wanted`: it is packed even if it is empty."""

    __slots__ = ("children", "is_wanted", "mode", "mtime_ns")

    def __init__(self) -> None:
        self.children: dict[bytes, Node] = {}
        self.is_wanted = False
        self.mode = 0
        self.mtime_ns = UNKNOWN_TIME_NS


# A file is its number, in the order in which files were added.
Node: TypeAlias = int | Link | Folder


class ArchiveTree:
    """The members to pack. Raises PackError for members that cannot be packed."""

    def __init__(self, archive: str, selection: Selection, options: PackOptions) -> None:
        self.archive = archive
        self.root = Folder()
        self.root.is_wanted = True
        self.skipped: list[str] = []
        # One value for each file.
        self.sizes = array("Q")
        self.modes = array("H")
        self.times_ns = array("q")
        self.symlinks = options.symlinks or "inside"
        self._selection = selection
        self._skip_special = options.skip_special

    def add(self, member: Member) -> bool:
        """Add a member; return whether it is a file, which then gets the next number."""
        wanted = self._selection.wanted(_below_root(member.name))
        if wanted is None or not (wanted.is_asked_for or member.kind is Kind.FOLDER):
            return False
        try:
            parts = parts_of(member.name)
            if member.kind is Kind.SPECIAL:
                raise BadNameError(member.target, special=True)
        except BadNameError as error:
            if not (error.special and self._skip_special):
                raise self.refusal(member.name, f"{error}; exclude it") from None
            self.skipped.append(f"{self.archive}: {quoted(member.name)}")
            return False
        if member.kind is Kind.FOLDER:
            folder = self._folder(parts, member.name)
            folder.mode = member.mode
            folder.mtime_ns = member.mtime_ns
            folder.is_wanted = folder.is_wanted or wanted.is_asked_for
            return False
        if not parts:
            raise self.refusal(member.name, "is not a directory")
        self._put(parts, member)
        return member.kind is Kind.FILE

    def _put(self, parts: list[bytes], member: Member) -> None:
        children = self._folder(parts[:-1], member.name).children
        if parts[-1] in children:
            raise self.refusal(member.name, "is in the archive twice; exclude it")
        children[parts[-1]] = self._node(member)

    def _node(self, member: Member) -> Node:
        if member.kind is Kind.SYMLINK:
            target = member.target.encode("utf-8", "surrogateescape")
            if not 0 < len(target) <= TARGET_LIMIT or b"\0" in target:
                raise self.refusal(member.name, "is a symbolic link that leads nowhere")
            return Link(target, member.mtime_ns)
        if member.kind is Kind.HARD_LINK:
            return self._linked(member)
        if not 0 <= member.size <= _SIZE_MAX:
            text = f"is said to have {member.size} bytes, which no file has: the archive is damaged"
            raise self.refusal(member.name, text)
        self.sizes.append(member.size)
        self.modes.append(member.mode)
        self.times_ns.append(member.mtime_ns)
        return len(self.sizes) - 1

    def _linked(self, member: Member) -> Node:
        """Return the file of which a hard link is another name."""
        try:
            node: Node | None = self.root
            for part in parts_of(member.target):
                node = node.children.get(part) if isinstance(node, Folder) else None
        except BadNameError:
            node = None
        if node is None or isinstance(node, Folder):
            raise self.refusal(
                member.name,
                f"is a hard link to {quoted(member.target)}, which is not a file packed before it; "
                "exclude it",
            )
        return node

    def _folder(self, parts: list[bytes], name: str) -> Folder:
        """Return the directory, and add it if it is new; `name` is the member's."""
        folder = self.root
        for depth, part in enumerate(parts):
            child = folder.children.get(part)
            if child is None:
                child = folder.children[part] = Folder()
            elif not isinstance(child, Folder):
                above = b"/".join(parts[: depth + 1]).decode()
                kind = "a symbolic link" if isinstance(child, Link) else "a file"
                raise self.refusal(name, f"needs the directory {above!r}, which is {kind}")
            folder = child
        return folder

    def refusal(self, name: str, reason: str) -> PackError:
        return PackError(f"{self.archive}: {quoted(name)}: {reason}")


def _below_root(name: str) -> str:
    return name.removeprefix("./").rstrip("/")
