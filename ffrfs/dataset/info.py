"""info: the contents of a data set in numbers, with the keys of the command's --json.

Not here: counting them (ffrfs/folder/info.py, ffrfs/tfrecord/info.py).
"""

from __future__ import annotations

import os
from typing import Any

from ffrfs.folder import info as packs
from ffrfs.folder.tree import PathType
from ffrfs.tfrecord import info as tfrecords
from ffrfs.tfrecord.shards import is_tfrecord, shard_paths
from ffrfs.tfrecord.tfds import TfdsDirectory, find_tfds


def info(path: PathType) -> dict[str, Any]:
    """Return the numbers of `path`: a pack, a TFRecord file, or a directory of either.

    The keys are those of `ffrfs info --json`: "kind", "files", "records", "bytes" and others.
    Reads headers and indexes only, but compressed TFRecord files whole. Raises FormatError,
    ChecksumError or OSError if it is damaged or cannot be read.
    """
    name = os.fspath(path)
    if is_tfrecord(name):
        return tfrecord_fields(name, tfrecords.info(shard_paths(name)))
    return pack_fields(name, packs.info(name))


def pack_fields(pack: str, found: packs.PackInfo) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "file": pack,
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


def tfrecord_fields(path: str, found: tfrecords.TFRecordInfo) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "file": path,
        "kind": "TFRecord",
        "records": sum(file.record_count for file in found.files),
        "bytes": sum(file.byte_count for file in found.files),
        "files": [
            {
                "file": file.file,
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


def _split_fields(directory: TfdsDirectory, found: tfrecords.TFRecordInfo) -> list[dict[str, Any]]:
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
