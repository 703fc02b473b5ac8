"""What a manifest says of a shard, and of files that are not in it.

Concurrency: values that do not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Missing(NamedTuple):
    """A file of the plan that is not in its shard."""

    path: str
    reason: str


@dataclass(frozen=True)
class Row:
    """What the manifest says of a shard. `made`: None is one that was there already."""

    number: int
    name: str
    file_count: int
    byte_count: int  # of its files
    size: int  # of the shard itself
    checksum: str  # CRC-32 of its header, which has those of all its records
    missing: tuple[Missing, ...]
    made: bool | None
