"""What can be packed: entries, and what knows where their bytes are.

Source (source.py) is one for a directory, ArchiveSource (archive.py) one for an archive, PackSource
(pack_source.py) one for packs.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, Protocol, TypeAlias

from ffrfs._native import EntryList, Writer

# What becomes of symbolic links: "inside" follows those that stay inside what is packed, and
# refuses the others; "follow" follows all; "keep" packs the links; "skip" leaves them out.
Symlinks: TypeAlias = Literal["inside", "follow", "keep", "skip"]

# Called with the files and the bytes done so far, about ten times a second.
Tick: TypeAlias = Callable[[int, int], object]

SPECIAL_KINDS: Final = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}

# The time, with permissions 0, of what has none: it is shown as in a pack that knows none.
UNKNOWN_TIME_NS: Final = -(2**63)
# File systems keep times before 1677 and after 2262; a pack has 64 bits of nanoseconds.
_TIME_MIN_NS, _TIME_MAX_NS = UNKNOWN_TIME_NS + 1, 2**63 - 1


class LinkCounts:
    """Symbolic links that are no links in the pack, at each place where they were found."""

    def __init__(self) -> None:
        self.followed = 0
        self.left_out = 0


class Contents(Protocol):
    name: str  # of the directory, archive or packs
    is_stream: bool  # append() is called in this process, for one run after the other
    entries: EntryList
    skipped: list[str]  # paths of what was left out for skip_special
    links: LinkCounts

    def share(self) -> None:
        """Let files that are one in the contents share a record: hard links, for example."""
        ...

    def number(self) -> None:
        """Give the files records in the contents' own order."""
        ...

    def append(self, writer: Writer, first: int, count: int, jobs: int, tick: Tick) -> None:
        """Write `count` records of the entries from `first` on.

        Raises PackError for what is not as it was listed.
        """
        ...

    def digests(self, files: Sequence[int], jobs: int) -> Iterator[bytes]:
        """Yield a SHA-256 for each of these files of the entries, in their order."""
        ...

    def close(self) -> None: ...


def storable_time_ns(time_ns: int) -> int:
    """The nearest time that a pack can hold."""
    return min(max(time_ns, _TIME_MIN_NS), _TIME_MAX_NS)
