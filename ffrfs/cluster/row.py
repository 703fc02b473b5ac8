"""How shards are made, and what a manifest says of them and of files that are not there.

Concurrency: values that do not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, TypedDict

# If a file is not as it was listed: no shard is made, or the file is left out. Who records it
# ends with an error.
OnError: TypeAlias = Literal["stop", "skip", "record"]


class MakingKeywords(TypedDict, total=False):
    """What run() and its like take by name: Making has what each means."""

    on_error: OnError
    jobs: int
    tmp_dir: str | None


@dataclass(frozen=True)
class Making:
    """How a shard is made."""

    on_error: OnError = "stop"
    jobs: int = 1  # threads that read
    tmp_dir: str | None = None  # of what is uploaded ($TMPDIR, /tmp)


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
