"""info: the contents of FFRecord files, in numbers. Reads their headers and indexes only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ffrfs._native import Pack
from ffrfs.folder.tree import PackTree, PathType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MISSING_MAX = 1000  # missing shards whose numbers are listed


class FileSizes(NamedTuple):
    """Sizes of files in bytes."""

    min: int
    median: int
    max: int


class IndexInfo(NamedTuple):
    """The mapped index that is used for a pack."""

    file: str  # the file that contains it: the pack, or its sidecar
    is_sidecar: bool
    size: int  # in bytes


class ShardInfo(NamedTuple):
    """The place of a pack in its set of shards, as the pack declares it."""

    set_id: bytes
    number: int
    of: int  # number of shards when this one was written


class PackInfo(NamedTuple):
    is_folder: bool  # False: a plain FFRecord file, each record of which counts as a file
    pack_count: int
    record_count: int  # including the indexes
    file_count: int
    folder_count: int  # without the root
    byte_count: int  # of all files together
    stored_byte_count: int  # the same, but bytes that several files share count once
    header_verified: bool  # False: the header of a pack has no checksum
    sizes: FileSizes | None  # None: there are no files
    indexes: list[IndexInfo]  # of the packs that have one
    shards: list[ShardInfo]  # of the packs that are shards
    missing_shards: list[int]  # numbers of missing shards; of very many the first ones
    missing_shard_count: int

    @property
    def index_size(self) -> int:
        return sum(index.size for index in self.indexes)

    @property
    def sidecar_count(self) -> int:
        return sum(index.is_sidecar for index in self.indexes)


def info(pack: PathType | Sequence[PathType]) -> PackInfo:
    """Return the numbers of `pack` as PackTree shows it, also of a set with missing shards.

    Raises FormatError, ChecksumError (for an index) or OSError for a bad pack. Warns as
    PackTree.
    """
    with PackTree(pack, allow_missing=True) as tree:
        volume = tree.volume
        packs = volume.packs
        sizes = _sizes(packs, volume.is_folder)
        stored_byte_count = int(sizes.sum())
        are_shared = volume.file_count > len(sizes)
        shards = [ShardInfo(*pack.shard) for pack in packs if pack.shard is not None]
        missing, missing_count = _missing(shards)
        return PackInfo(
            is_folder=volume.is_folder,
            pack_count=len(packs),
            record_count=volume.record_count,
            file_count=volume.file_count,
            folder_count=volume.directory_count - 1,
            byte_count=_byte_count(tree) if are_shared else stored_byte_count,
            stored_byte_count=stored_byte_count,
            header_verified=not volume.unverified_paths,
            sizes=_summary(sizes),
            indexes=[
                IndexInfo(os.fsdecode(path), pack.index_kind == "sidecar", pack.index_size_bytes)
                for pack in packs
                if (path := pack.index_path) is not None
            ],
            shards=shards,
            missing_shards=missing,
            missing_shard_count=missing_count,
        )


def _byte_count(tree: PackTree) -> int:
    """Return the size of all files, each read from the index: about a second for a million."""
    entries = tree.entries(tree.folder_ino(""), recursive=True)
    return sum(entry.attributes.size for entry in entries if not (entry.is_folder or entry.is_link))


def _missing(shards: Sequence[ShardInfo]) -> tuple[list[int], int]:
    """Return numbers of missing shards, and how many are missing in all.

    A shard may claim a set of billions, so the list is limited.
    """
    missing: list[int] = []
    missing_count = 0
    for set_id in sorted({shard.set_id for shard in shards}):
        found = [shard for shard in shards if shard.set_id == set_id]
        numbers = {shard.number for shard in found}
        # A shard with a number beyond its own count is taken for the last one.
        count = max(max(shard.of, shard.number + 1) for shard in found)
        lacking = (number for number in range(count) if number not in numbers)
        missing += islice(lacking, _MISSING_MAX - len(missing))
        missing_count += count - len(numbers)
    return missing, missing_count


def _sizes(packs: Sequence[Pack], are_folders: bool) -> NDArray[np.int64]:
    """Return the sizes of all records, without a pack's index."""
    import numpy as np

    sizes = []
    for pack in packs:
        offsets = pack.offsets()
        of_file = offsets[1:] - offsets[:-1]
        sizes.append(of_file[:-1] if are_folders else of_file)
    return np.concatenate(sizes)


def _summary(sizes: NDArray[np.int64]) -> FileSizes | None:
    count = len(sizes)
    if count == 0:
        return None
    sizes.sort()
    median = (int(sizes[(count - 1) // 2]) + int(sizes[count // 2])) // 2
    return FileSizes(int(sizes[0]), median, int(sizes[-1]))
