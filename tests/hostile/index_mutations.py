"""Mapped indexes changed at random, before their checksums are made, so that these are right.

index_cases.py has single lies; here several lies come together, also with values of other
entries. tests/fuzz mutates indexes that are encoded already, and tests only the core.
"""

from __future__ import annotations

import random
import stat
from collections.abc import Callable, MutableSequence, Sequence
from copy import copy
from dataclasses import fields
from typing import Any

from tests.index_file import SECTION_NAMES, Directory, Index, Inode, Link, Tree

_WIDTHS = {
    **{"name_offset": 64, "value": 64, "mtime_ns": 64, "parent": 32, "mode": 16, "name_size": 16},
    **{field.name: 32 for field in fields(Directory)},
}
_EDGES = [0, 1, 2, 255, 256, 4095, 4096, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 63]
_MODES = [stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, 0]
_NAMES = [b"", b".", b"..", b"a/b", b"\0", b"\n", b"x" * 255, b"x" * 256, b"%s", b"-rf"]
_TRAILER = [
    "version",
    "flags",
    "record_count",
    "pack_size",
    "pack_header_crc",
    "link_count",
    "zero",
]

FOLDERS = 40  # in forest()


def forest(order: random.Random) -> Tree:
    """Return folders that do not depend on each other; tests leave the odd ones as they are."""
    return {
        b"%03d" % number: {
            **{b"f%d" % k: order.randbytes(order.choice([0, 10, 5000])) for k in range(3)},
            b"inner": {b"deep": {b"f": order.randbytes(100)}, b"f": order.randbytes(200)},
            b"link": Link(b"inner/f"),
        }
        for number in range(FOLDERS)
    }


class Mutator:
    """Changes an index; if `slots` are given, only these, and nothing of the index as a whole."""

    def __init__(self, order: random.Random, slots: Sequence[int] | None = None) -> None:
        self._order = order
        self._slots = slots
        everywhere: list[Callable[[Index], None]] = [
            *(self._inode_field, self._inode_field, self._inode_field, self._directory_field),
            *(self._directory_field, self._swap_inodes, self._copy_inode, self._swap_directories),
            *(self._rename, self._retarget),
        ]
        of_the_whole: list[Callable[[Index], None]] = [
            *(self._lengthen, self._shorten, self._file, self._place, self._trailer),
        ]
        self._acts = everywhere + (of_the_whole if slots is None else [])

    def __call__(self, index: Index, count: int = 1) -> None:
        for _ in range(count):
            self._order.choice(self._acts)(index)

    def _slot(self, index: Index) -> int:
        return self._order.choice(self._slots or range(len(index.inodes)))

    def _inode_field(self, index: Index) -> None:
        self._change_field(index.inodes[self._slot(index)], index.inodes)

    def _directory_field(self, index: Index) -> None:
        slots = set(self._slots or range(len(index.inodes)))
        own = [directory for directory in index.directories if directory.slot in slots]
        if own:
            self._change_field(self._order.choice(own), index.directories)

    def _change_field(self, entry: Any, others: Sequence[Any]) -> None:
        name = self._order.choice(fields(entry)).name
        value = getattr(entry, name)
        values = [
            *(value + 1, value - 1, value ^ (1 << self._order.randrange(_WIDTHS[name]))),
            *(getattr(self._order.choice(others), name), self._order.choice(_EDGES)),
            *(len(others), len(others) - 1, self._order.randrange(1 << _WIDTHS[name])),
        ]
        if name == "mode":
            values.append(self._order.choice(_MODES) | self._order.randrange(0o10000))
        chosen = self._order.choice(values) % (1 << _WIDTHS[name])
        setattr(entry, name, chosen - (1 << 63) if name == "mtime_ns" else chosen)

    def _swap_inodes(self, index: Index) -> None:
        one, other = self._slot(index), self._slot(index)
        index.inodes[one], index.inodes[other] = index.inodes[other], index.inodes[one]

    def _copy_inode(self, index: Index) -> None:
        index.inodes[self._slot(index)] = copy(index.inodes[self._slot(index)])

    def _swap_directories(self, index: Index) -> None:
        slots = set(self._slots or range(len(index.inodes)))
        own = [k for k, directory in enumerate(index.directories) if directory.slot in slots]
        if own:
            one, other = self._order.choice(own), self._order.choice(own)
            all_of_them = index.directories
            all_of_them[one], all_of_them[other] = all_of_them[other], all_of_them[one]

    def _rename(self, index: Index) -> None:
        inode, name = index.inodes[self._slot(index)], self._order.choice(_NAMES)
        inode.name_offset, inode.name_size = len(index.names), len(name)
        index.names += name

    def _retarget(self, index: Index) -> None:
        inode = index.inodes[self._slot(index)]
        inode.mode, inode.value = stat.S_IFLNK | 0o777, len(index.targets)
        target = self._order.choice([b"", b"\0", b"t" * 4095, b"t" * 4096, b"../" * 100, b"f"])
        size = self._order.choice([len(target), len(target), self._order.choice(_EDGES[:-1])])
        index.targets += size.to_bytes(4, "little") + target

    def _lengthen(self, index: Index) -> None:
        entries: MutableSequence[Any] = self._entries(index)
        entries.extend([copy(self._order.choice(entries))] * self._order.choice([1, 2, 500]))

    def _shorten(self, index: Index) -> None:
        entries = self._entries(index)
        del entries[self._order.randrange(len(entries)) :]
        if not entries:
            entries.append(Inode() if entries is index.inodes else Directory())

    def _entries(self, index: Index) -> MutableSequence[Any]:
        return self._order.choice([index.inodes, index.directories])

    def _file(self, index: Index) -> None:
        place = self._order.randrange(len(index.files))
        index.files[place] = self._order.choice([*_EDGES[:-1], self._slot(index)])

    def _place(self, index: Index) -> None:
        value = self._order.choice([None, *_EDGES, 8 * self._order.randrange(500)])
        size = self._order.choice([None, *_EDGES, 8 * self._order.randrange(500)])
        index.places[self._order.choice(SECTION_NAMES)] = (value, size)

    def _trailer(self, index: Index) -> None:
        index.trailer[self._order.choice(_TRAILER)] = self._order.choice(_EDGES[:-1])


def slots_below(index: Index, folders: Sequence[int]) -> list[int]:
    """Return the slots of everything below these entries of the root."""
    root = index.directories[0]
    found = {root.first_child + number for number in folders}
    below = []
    for slot, inode in enumerate(index.inodes):
        if slot and inode.parent in found:  # a parent's slot comes before its children's
            found.add(slot)
            below.append(slot)
    return below
