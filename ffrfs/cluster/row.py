"""Settings of making shards, and the rows of a manifest: shards, and missing files.

Concurrency: immutable values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, TypedDict

# If a file is not as it was listed: "stop" makes no shard, "skip" and "record" leave the file
# out, and "record" ends with an error.
OnError: TypeAlias = Literal["stop", "skip", "record"]


class MakingKeywords(TypedDict, total=False):
    """The keywords of run() and its like; Making says what each means."""

    on_error: OnError
    jobs: int
    tmp_dir: str | None


@dataclass(frozen=True)
class Making:
    """The settings of making a shard."""

    on_error: OnError = "stop"
    jobs: int = 1  # threads that read
    tmp_dir: str | None = None  # for files that are uploaded ($TMPDIR, /tmp)


class Missing(NamedTuple):
    """A file of the plan that is not in its shard."""

    path: str
    reason: str


@dataclass(frozen=True)
class Row:
    """The manifest's row of a shard. `made`: None for a shard that existed before."""

    number: int
    name: str
    file_count: int
    byte_count: int  # bytes of its files
    size: int  # of the shard itself
    checksum: str  # CRC-32 of its header, which has the CRC-32 of each record
    missing: tuple[Missing, ...]
    made: bool | None
