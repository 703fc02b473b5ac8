"""Contents: entries to pack, and access to their bytes; the base class of the sources.

Source (source.py) has the contents of a directory, ArchiveSource (archive.py) of an archive,
PackSource (pack_source.py) of packs.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, TypeVar

from ffrfs._native import EntryList, Writer
from ffrfs.printable import quoted

if TYPE_CHECKING:
    from typing_extensions import Buffer

_SizedT = TypeVar("_SizedT", bound=Sized)

# Symbolic links: "inside" follows links that stay inside the source, and refuses the others;
# "follow" follows all; "keep" packs the links; "skip" leaves them out.
Symlinks: TypeAlias = Literal["inside", "follow", "keep", "skip"]

# Called with the files and the bytes done so far, about ten times a second.
Tick: TypeAlias = Callable[[int, int], object]

SPECIAL_KINDS: Final = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}

# The time, with permissions 0, of entries that have none: a mount shows its defaults.
UNKNOWN_TIME_NS: Final = -(2**63)
# File systems keep times before 1677 and after 2262; a pack has 64 bits of nanoseconds.
_TIME_MIN_NS, _TIME_MAX_NS = UNKNOWN_TIME_NS + 1, 2**63 - 1


class LinkCounts:
    """Counts symbolic links of the source that are not links in the pack."""

    def __init__(self) -> None:
        self.followed = 0
        self.left_out = 0


class Advice(NamedTuple):
    """Advice for the caller about a file or link that cannot be packed."""

    one: str = "exclude it"
    special: str = "exclude it, or skip such files (--skip-special)"
    outside: str = "follow, keep or skip links by --symlinks, or exclude them"


ADVICE: Final = Advice()  # of commands with all options


class Contents:
    is_stream = False  # True: append() is called for one run after the other, in this process
    name: str  # of the directory, archive or packs
    entries: EntryList
    skipped: list[str]  # paths that skip_special left out
    links: LinkCounts

    def shown(self, path: str) -> str:
        """Return how an error names one of its paths."""
        return f"{self.name}: {quoted(path)}"

    def share(self) -> None:
        """Let equal names of one file, such as hard links in an archive, share a record."""

    def number(self) -> None:
        """Give the files records in the contents' own order."""
        raise NotImplementedError

    def append(self, writer: Writer, first: int, count: int, jobs: int, tick: Tick) -> None:
        """Write `count` records of the entries from `first` on.

        Raises PackError for a file that is not as it was listed.
        """
        raise NotImplementedError

    def digests(self, files: Sequence[int], jobs: int) -> Iterator[bytes]:
        """Yield a SHA-256 for each of these files of the entries, in their order."""
        raise NotImplementedError

    def close(self) -> None:
        """Close files that stay open between calls."""


def digest_of(pieces: Iterable[Buffer]) -> bytes:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def ticking(tick: Tick, done: int, size: int, pieces: Iterable[_SizedT]) -> Iterator[_SizedT]:
    """Yield the pieces of a file, and report each; `done` files of `size` bytes were before it."""
    for piece in pieces:
        yield piece
        size += len(piece)
        tick(done, size)


def storable_time_ns(time_ns: int) -> int:
    """Return the nearest time that a pack can hold."""
    return min(max(time_ns, _TIME_MIN_NS), _TIME_MAX_NS)
