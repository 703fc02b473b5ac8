"""Data sets of a benchmark: random bytes, so that nothing compresses and nothing repeats."""

from __future__ import annotations

import os
import pickle
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ffrfs import FileWriter
from ffrfs._native import EntryList, Writer
from ffrfs.tfrecord import TFRecordWriter

FOLDER_FILES = 1_000  # files in one sub-folder
JPEG = b"\xff\xd8\xff\xe0"  # the beginning of a picture, by which a mount names it


@dataclass(frozen=True)
class Folder:
    root: Path
    names: list[str]  # relative to root, sorted
    checksums: list[int]  # CRC-32 of each


def blobs(count: int, size: int) -> Iterator[bytes]:
    """Yield random bytes, which are the same at every call."""
    random = np.random.default_rng(size)
    for _ in range(count):
        yield random.bytes(size)


def file_name(index: int) -> str:
    return f"{index // FOLDER_FILES:04d}/{index:07d}.bin"


def write_folder(root: Path, count: int, size: int) -> Folder:
    """Write a folder tree of `count` files of `size` bytes; its pages stay cached."""
    names = [file_name(index) for index in range(count)]
    checksums = []
    for name, blob in zip(names, blobs(count, size), strict=True):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(blob)
        checksums.append(zlib.crc32(blob))
    return Folder(root, names, checksums)


def write_huge(root: Path, size: int) -> Folder:
    """Write a folder with one file, which is too large to be built in memory."""
    root.mkdir()
    checksum = 0
    with (root / "huge.bin").open("wb") as file:
        for blob in blobs(size >> 20, 1 << 20):
            file.write(blob)
            checksum = zlib.crc32(blob, checksum)
    return Folder(root, ["huge.bin"], [checksum])


def write_records(path: Path, count: int, size: int) -> None:
    """Write one FFRecord file; its pages stay cached."""
    with FileWriter(path, count) as writer:
        for blob in blobs(count, size):
            writer.write_one(blob)


def write_pack(path: Path, count: int, size: int, folder_files: int = FOLDER_FILES) -> None:
    """Write a packed folder as `ffrfs pack` does, of files that are on no disk.

    Each folder has `folder_files` of them. The pages of `path` stay cached.
    """
    source = EntryList()
    for first in range(0, count, folder_files):
        folder = source.add_folder(0, b"%04d" % (first // folder_files), 0o755, 0)
        names = range(first, min(first + folder_files, count))
        source.add_files(folder, ((b"%07d.bin" % index, size, 0o644, 0) for index in names))
    source.number()  # in the order of the names: file i is record i
    writer = Writer(os.fsencode(path), count + 1)
    try:
        for blob in blobs(count, size):
            writer.append(blob)
        writer.append_index(source)
        writer.finish()
    finally:
        writer.abort()


def write_examples(path: Path, count: int, size: int) -> list[int]:
    """Write one TFRecord file of Examples like ImageNet's; its pages stay cached.

    Returns the CRC-32 of each picture, which is `size` random bytes.
    """
    from ffrfs.tfrecord import from_dict  # needs protobuf, which the demo does not have

    checksums = []
    with TFRecordWriter(path) as writer:
        for index, blob in enumerate(blobs(count, size)):
            picture = JPEG + blob[len(JPEG) :]
            features = {
                "image/encoded": picture,
                "image/format": "JPEG",
                "image/filename": f"n{index:08d}.JPEG",
                "image/height": 375,
                "image/width": 500,
                "image/class/label": index % 1000,
                "image/class/text": f"class {index % 1000}",
                "image/object/bbox/xmin": [0.25, 0.5],
            }
            writer.write(from_dict(features).SerializeToString())
            checksums.append(zlib.crc32(picture))
    return checksums


def record_of(index: int) -> bytes:
    """Return the content of file `index` in write_reference_pack()."""
    return index.to_bytes(8, "little")


def write_reference_pack(path: Path, count: int) -> None:
    """Write a packed folder of `count` files of 8 bytes, byte for byte as the reference does."""
    tree: OrderedDict[str, OrderedDict[str, int]] = OrderedDict()
    for index in range(count):
        folder, name = file_name(index).split("/")
        tree.setdefault(folder, OrderedDict())[name] = index
    index_record = b"piouhjgbr" + pickle.dumps(tree)

    record_count = count + 1
    records = np.arange(count, dtype="<i8").tobytes()
    checksums = np.empty(record_count, "<u4")
    checksums[:count] = [zlib.crc32(record_of(index)) for index in range(count)]
    checksums[count] = zlib.crc32(index_record)
    data_offset = 12 + 12 * record_count
    offsets = data_offset + 8 * np.arange(record_count, dtype="<i8")
    header = record_count.to_bytes(8, "little") + checksums.tobytes() + offsets.tobytes()
    with path.open("wb") as file:
        file.write(zlib.crc32(header).to_bytes(4, "little") + header)
        file.write(records)
        file.write(index_record)
