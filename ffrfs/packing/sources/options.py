"""How a tree is packed: each option once, for pack_folder() and its like, plans and `ffrfs pack`.

Not here: sources and targets. Concurrency: immutable values.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypedDict, get_args

from ffrfs.errors import OptionError, PackError
from ffrfs.folder.progress import Progress
from ffrfs.folder.tree import OnConflict
from ffrfs.packing.sources.contents import Symlinks
from ffrfs.packing.sources.order import Order
from ffrfs.packing.sources.path_list import PathList

# More threads than cores: where the files are not in the page cache, threads wait.
_JOBS_LEAST = 4
_JOBS_MOST = 16

# Seconds since 1970: the time of all files in a reproducible pack. https://reproducible-builds.org
_EPOCH_VARIABLE = "SOURCE_DATE_EPOCH"
_NS_PER_S = 1_000_000_000
_LARGEST_TIME_S = (2**63 - 1) // _NS_PER_S

PathType: TypeAlias = str | os.PathLike[str]
Files: TypeAlias = Iterable[PathType] | PathList

# Called with the path of each file, in the order of the pack.
Listing: TypeAlias = Callable[[Iterator[str]], object]


# The options that decide about the bytes of a set, and are in its plan.
PLANNED = (
    *("include", "exclude", "symlinks", "skip_special", "on_conflict", "allow_missing", "order"),
    *("dedup", "shards", "shard_size", "append"),
)


class PackKeywords(TypedDict, total=False):
    """The keywords of pack_folder() and its like; PackOptions says what each means."""

    include: Sequence[str] | None
    exclude: Sequence[str] | None
    files: Files | None
    symlinks: Symlinks | None
    skip_special: bool
    on_conflict: OnConflict
    allow_missing: bool
    order: Order | None
    dedup: bool
    reproducible: bool
    shards: int | None
    shard_size: int | None
    append: bool
    force: bool
    tmp_dir: PathType | None
    dry_run: bool
    jobs: int | None
    progress: Progress | None
    listing: Listing | None


@dataclass(frozen=True)
class PackOptions:
    """How sources are packed. Raises OptionError if options contradict each other."""

    # Shell patterns, for a name or, with a slash, for a path below the source; an excluded
    # directory is not entered, an included one is taken whole, and each pattern to include must
    # match something.
    include: Sequence[str] | None = None
    exclude: Sequence[str] | None = None
    # Only these paths, in this order; a directory means all below it, and each must exist.
    files: Files | None = None
    # "inside" follows links that stay inside the source, and refuses others; "follow" follows
    # all; "keep" packs the links; "skip" leaves them out. None: "keep" for packs, else "inside".
    symlinks: Symlinks | None = None
    # Leave out sockets, FIFOs, devices and names that are not UTF-8, which are an error.
    skip_special: bool = False
    # For packs, as in PackedFolder.
    on_conflict: OnConflict = "error"
    allow_missing: bool = False
    # The order of the records: "path"; "size", the smallest first; or a file with one path per
    # line, after which unlisted files follow. None: by path, for packs the order of their records.
    order: Order | None = None
    # Store files that are equal byte for byte once.
    dedup: bool = False
    # Give all files one time, SOURCE_DATE_EPOCH or 1970, and permissions 0644 or 0755. The default
    # if SOURCE_DATE_EPOCH is in the environment.
    reproducible: bool = False
    # A directory of so many packs, or of packs of at most so many bytes.
    shards: int | None = None
    shard_size: int | None = None
    # Add packs to such a directory; none of their paths may be there already.
    append: bool = False
    # Replace the file at the target.
    force: bool = False
    # The directory in which packs for a bucket are made, two of a set at a time ($TMPDIR, /tmp).
    tmp_dir: PathType | None = None
    # Do everything but writing.
    dry_run: bool = False
    # Threads that read.
    jobs: int | None = None
    progress: Progress | None = None
    # Is called with the files' paths in their order.
    listing: Listing | None = None

    def __post_init__(self) -> None:
        if self.shards is not None and self.shard_size is not None:
            raise OptionError("shards and shard_size: one of them")
        for name in ("shards", "shard_size", "jobs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise OptionError(f"{name} must be at least 1, not {value}")
        if self.symlinks not in (None, *get_args(Symlinks)):
            known = ", ".join(get_args(Symlinks))
            raise OptionError(f"symlinks must be one of {known}, not {self.symlinks!r}")
        if self.files is not None and not isinstance(self.files, PathList):
            object.__setattr__(self, "files", PathList(self.files))  # it may be an iterator

    @property
    def is_set(self) -> bool:
        """Return whether a directory of packs is written."""
        return self.append or self.shards is not None or self.shard_size is not None

    @property
    def time_ns(self) -> int | None:
        """The time of all files in the pack; None: each keeps its own."""
        return fixed_time_ns(self.reproducible)

    @property
    def threads(self) -> int:
        return self.jobs or max(_JOBS_LEAST, min(_JOBS_MOST, os.cpu_count() or 1))

    @property
    def listed(self) -> PathList | None:
        assert self.files is None or isinstance(self.files, PathList)
        return self.files


def fixed_time_ns(reproducible: bool) -> int | None:
    """The time of all files in the pack; None: each keeps its own."""
    text = os.environ.get(_EPOCH_VARIABLE)
    if not text:
        return 0 if reproducible else None
    if not (text.isascii() and text.isdigit()) or int(text) > _LARGEST_TIME_S:
        raise PackError(f"{_EPOCH_VARIABLE}: {text!r} is not a number of seconds since 1970")
    return int(text) * _NS_PER_S
