"""Asks all possible questions of packs whose index may lie.

Runs in a child (tests/mount/child.py), because a fault of the core may end the process. Allowed
are the answers of a sound tree and the errors of damage; all else is reported as a fault.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ffrfs._native import Volume
from ffrfs.errors import ChecksumError, FormatError, describe

_ODD_INODES = [0, 1 << 31, 1 << 32, (1 << 32) + 1, 1 << 40, 1 << 56, 1 << 63, (1 << 64) - 1]


class Look(NamedTuple):
    refused: str  # why the pack could not be opened; "": it could
    warnings: list[str]
    entries: list[tuple[bytes, int, int, bytes]]  # (path, mode, mtime, content or target)
    errors: list[str]  # the errors of single questions
    faults: list[str]


def looks(unions: list[list[str]], slot_count: int) -> Iterator[Look]:
    """Yield a look at each tree, which is of one pack or of several."""
    for packs in unions:
        yield _Walk(packs, slot_count).look()


def looks_at_one(pack: str, slot_count: int) -> Iterator[Look | None]:
    """Yield None once the pack is open; then look at it again and again."""
    walk = _Walk([pack], slot_count)
    walk.open()
    yield None
    while True:
        yield walk.look()


def path_sizes(pack: str, inos: list[int]) -> list[int | str]:
    """Return the size of each inode's path from the root, or why it has none."""
    volume = Volume([os.fsencode(pack)], uid=0, gid=0)
    sizes: list[int | str] = []
    for ino in inos:
        try:
            sizes.append(len(volume.path(ino)))
        except (FormatError, ChecksumError, OSError) as error:
            sizes.append(str(error))
    return sizes


class _Walk:
    def __init__(self, packs: list[str], slot_count: int) -> None:
        self.packs = packs
        self.slot_count = slot_count
        self.bytes = b"".join(Path(pack).read_bytes() for pack in packs)
        self.volume: Any = None
        self.entries: list[tuple[bytes, int, int, bytes]] = []
        self.errors: list[str] = []
        self.faults: list[str] = []

    def open(self) -> None:
        packs = [os.fsencode(pack) for pack in self.packs]
        self.volume = Volume(packs, uid=0, gid=0, on_conflict="first")

    def look(self) -> Look:
        if self.volume is None:
            try:
                self.open()
            except (FormatError, ChecksumError, OSError) as error:
                return Look(str(error), [], [], [], self._told(str(error)))
        self.entries, self.errors, self.faults = [], [], []
        self._folders()
        inos = range(self.slot_count + 4)
        for ino in (*inos, *_ODD_INODES, *(1 << 40 | ino for ino in inos)):
            self._inode(ino)
        for record in range(self.volume.record_count):
            self._ask(lambda r=record: self.volume.file_of(r))
        bad = self._ask(lambda: self.volume.verify(0, self.volume.record_count))
        self.errors += [describe(error) for _, error in bad or []]
        faults = [*self.faults, *(fault for error in self.errors for fault in self._told(error))]
        return Look("", self.volume.warnings, self.entries, self.errors, faults)

    def _told(self, error: str) -> list[str]:
        well = any(pack in error for pack in self.packs) and "\n" not in error and len(error) < 1000
        return [] if well else [f"not one line that names the file: {error!r}"]

    def _ask(self, question: Callable[[], Any]) -> Any:
        """Return the answer; None: an error of damage. Any other exception ends the child."""
        try:
            return question()
        except (FormatError, ChecksumError, OSError) as error:
            self.errors.append(str(error))
            return None

    def _folders(self) -> None:
        waiting = [(1, b"", True)]
        seen = {1}
        while waiting:
            folder, path, is_reached = waiting.pop()
            error_count = len(self.errors)
            entries = [(path + name, attributes) for name, attributes in self._entries(folder)]
            # If a listing fails, lookups of its entries, and of paths below them, may find nothing.
            is_whole = is_reached and len(self.errors) == error_count
            for inner, attributes in entries:
                if attributes.ino in seen:
                    self.faults.append(f"{inner!r}: inode {attributes.ino} is shown twice")
                seen.add(attributes.ino)
                if len(seen) > self.slot_count + 4:
                    self.faults.append("the tree has no end")
                    return
                found = self._ask(lambda p=inner: self.volume.resolve(p))
                if is_whole and found not in (attributes.ino, None):
                    self.faults.append(f"{inner!r}: is listed, and cannot be looked up")
                content = self._content(attributes)
                self.entries.append((inner, attributes.mode, attributes.mtime_ns, content))
                if stat.S_ISDIR(attributes.mode):
                    waiting.append((attributes.ino, inner + b"/", is_whole))

    def _entries(self, folder: int) -> Iterator[tuple[bytes, Any]]:
        start, before = 0, b""
        while batch := self._ask(lambda s=start: self.volume.list(folder, s, 3)):
            for name, attributes in batch:
                is_name = 1 <= len(name) <= 255 and not {b"/", b"\0"} & {bytes([c]) for c in name}
                if not is_name or name in (b".", b"..") or name <= before:
                    self.faults.append(f"{name!r}: no name, or not behind {before!r}")
                before = name
                yield name, attributes
            start += len(batch)
            if start > self.slot_count + 4:
                self.faults.append("a listing has no end")
                return

    def _content(self, attributes: Any) -> bytes:
        ino, size = attributes.ino, attributes.size
        if attributes.mode & 0o7000 and not stat.S_ISLNK(attributes.mode):
            self.faults.append(f"inode {ino}: mode {attributes.mode:o}")
        if stat.S_ISLNK(attributes.mode):
            target = self._ask(lambda: self.volume.target(ino)) or b""
            if b"\0" in target or len(target) > 4095 or len(target) not in (0, size):
                self.faults.append(f"inode {ino}: leads to {target[:100]!r}")
            return bytes(target)
        if not stat.S_ISREG(attributes.mode):
            return b""
        if size > len(self.bytes):
            self.faults.append(f"inode {ino}: is larger than the pack")
            return b""
        found = self._ask(lambda: bytes(self.volume.read_wait(ino, 0, size + 1)))
        if found is not None and (len(found) != size or found not in self.bytes):
            self.faults.append(f"inode {ino}: bytes that are not in the pack")
        return found or b""

    def _inode(self, ino: int) -> None:
        """Ask about an inode, which perhaps no folder shows."""
        for question in (
            self.volume.attributes,
            self.volume.record,
            self.volume.target,
            self.volume.path,
        ):
            self._ask(lambda q=question: q(ino))
        self._ask(lambda: self.volume.list(ino, 0, 2))
        attributes = self._ask(lambda: self.volume.attributes(ino))
        if attributes is not None and stat.S_ISREG(attributes.mode):
            self._content(attributes)
