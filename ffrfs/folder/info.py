"""info: the contents of a data set, in numbers, with the keys of the command's --json.

Packs: only headers and indexes are read. Not here: reading TFRecord files (ffrfs/tfrecord/info.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from ffrfs._native import Pack
from ffrfs.folder.tree import PackTree, PathType
from ffrfs.printable import shown_name
from ffrfs.tfrecord.shards import is_tfrecord, shard_paths
from ffrfs.tfrecord.tfds import TfdsSplits, find_tfds

if TYPE_CHECKING:
    from ffrfs.tfrecord.info import TFRecordInfo

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


def info(path: PathType) -> dict[str, Any]:
    """Return the numbers of `path`: a pack, a TFRecord file, or a directory of either.

    The keys are those of `ffrfs info --json`: "kind", "files", "records", "bytes" and others.
    Reads headers and indexes only, but compressed TFRecord files whole. Raises FormatError,
    ChecksumError or OSError if it is damaged or cannot be read.
    """
    name = os.fspath(path)
    if is_tfrecord(name):
        from ffrfs.tfrecord.info import info as tfrecord_info

        return tfrecord_fields(name, tfrecord_info(shard_paths(name)))
    return pack_fields(name, pack_info(name))


def pack_info(pack: PathType | Sequence[PathType]) -> PackInfo:
    """Return the numbers of `pack` as PackTree shows it, also of a set with missing shards.

    Raises FormatError, ChecksumError (for an index) or OSError for a bad pack. Warns as
    PackTree.
    """
    with PackTree(pack, allow_missing=True) as tree:
        volume = tree.volume
        packs = volume.packs
        size_count, stored_byte_count, *sizes = Pack.size_summary(packs, volume.is_folder)
        are_shared = volume.file_count > size_count
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
            sizes=FileSizes(*sizes) if size_count else None,
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


def pack_fields(pack: str, found: PackInfo) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "file": shown_name(pack),
        "kind": "pack" if found.is_folder else "plain FFRecord",
        "records": found.record_count,
        "files": found.file_count,
        "directories": found.folder_count,
        "bytes": found.byte_count,
        "stored_bytes": found.stored_byte_count,
        "header_checksum": "good" if found.header_verified else "missing",
        "sizes": found.sizes._asdict() if found.sizes else None,
    }
    if found.is_folder:
        fields["index"] = {
            "packs": found.pack_count,
            "indexed": len(found.indexes),
            "sidecars": [index.file for index in found.indexes if index.is_sidecar],
            "bytes": found.index_size,
        }
    if found.pack_count > 1 or found.shards:
        fields["shards"] = {
            "packs": found.pack_count,
            "missing": found.missing_shards,
            "missing_count": found.missing_shard_count,
        }
    return fields


def tfrecord_fields(path: str, found: TFRecordInfo) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "file": shown_name(path),
        "kind": "TFRecord",
        "records": sum(file.record_count for file in found.files),
        "bytes": sum(file.byte_count for file in found.files),
        "files": [
            {
                "file": shown_name(file.file),
                "compression": file.compression.lower() or "none",
                "records": file.record_count,
                "bytes": file.byte_count,
                "file_size": file.file_size,
                "sidecar": file.has_sidecar,
            }
            for file in found.files
        ],
        "sizes": found.sizes._asdict() if found.sizes else None,
    }
    directory = find_tfds(path)
    if directory is not None:
        fields["tfds"] = {
            "name": directory.name,
            "version": directory.version,
            "splits": _split_fields(directory, found),
        }
    return fields


def _split_fields(directory: TfdsSplits, found: TFRecordInfo) -> list[dict[str, Any]]:
    """Return for each split that was read its numbers in dataset_info.json, and the actual ones."""
    counts = {file.file: file.record_count for file in found.files}
    all_fields = []
    for split in directory.splits.values():
        present = {path: counts[path] for path in split.shard_paths if path in counts}
        if not present and not split.missing():
            continue  # the caller asked for another split
        declared = dict(zip(split.shard_paths, split.shard_lengths, strict=True))
        all_fields.append(
            {
                "name": split.name,
                "examples": split.num_examples,
                "records": sum(present.values()),
                "shards": len(split.shard_paths),
                "missing": [path for path in split.shard_paths if path not in present],
                "wrong": [
                    {"file": path, "records": count, "examples": declared[path]}
                    for path, count in present.items()
                    if count != declared[path]
                ],
            }
        )
    return all_fields
