"""The description of an archive's member, the same for tar and zip.

Not here: reading members (tar_members.py, zip_members.py), checking them (archive_tree.py).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from ffrfs.packing.sources.contents import UNKNOWN_TIME_NS

# So many bytes of a file are in memory at a time.
PIECE_SIZE: Final = 1 << 20
TARGET_LIMIT: Final = 4095  # bytes of a symbolic link's target, the limit of Linux


class Kind(enum.Enum):
    FILE = enum.auto()
    FOLDER = enum.auto()
    SYMLINK = enum.auto()
    HARD_LINK = enum.auto()
    SPECIAL = enum.auto()


class Member(NamedTuple):
    name: str  # as in the archive; a byte that is not UTF-8 as a lone surrogate
    kind: Kind
    size: int = 0  # in bytes, as announced
    mode: int = 0
    mtime_ns: int = UNKNOWN_TIME_NS
    target: str = ""  # of a link; for special files their kind: "is a FIFO"


class Members(Protocol):
    """One pass over an archive. Its exceptions name the archive."""

    def __iter__(self) -> Iterator[Member]: ...

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of the last file; call it before the next member is read."""
        ...
