"""The targets of records: a TFRecord file, a plain FFRecord file, or a pack.

Each appears under its name whole, or not at all. Not here: the sources of records
(source.py), a directory of features (feature_folder.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ffrfs._native import EntryList
from ffrfs.convert.source import NUMBER_DIGITS_MIN, Record, UnfitRecordError
from ffrfs.errors import PackError, naming
from ffrfs.files.kind import INDEX_MAGIC
from ffrfs.files.replacing import new_file
from ffrfs.packing.pack_file import writing
from ffrfs.packing.sources.contents import UNKNOWN_TIME_NS
from ffrfs.tfrecord.options import TFRecordOptions
from ffrfs.tfrecord.stream_scan import RECORD_LIMIT
from ffrfs.tfrecord.writer import TFRecordWriter


def write_tfrecord(
    path: str, records: Iterable[Record], options: TFRecordOptions, *, force: bool = False
) -> None:
    """Write the records. Raises UnfitRecordError for one that could not be read again."""
    with new_file(path, force=force) as staged:
        with naming(staged.path):
            writer = TFRecordWriter(staged.place, options)
        try:
            for record in records:
                if options.compression_type and len(record) > RECORD_LIMIT:
                    raise UnfitRecordError(
                        "larger than 2 GiB, which no reader of a compressed file takes; write it "
                        "with --compression none"
                    )
                with naming(staged.path):
                    writer.write(record)
        finally:
            with naming(staged.path):
                writer.close()


def write_ffrecord(
    path: str, records: Iterable[Record], count: int, *, force: bool = False
) -> None:
    """Write the records. Raises PackError if programs would take the file for a pack."""
    last: Record = b""
    with writing(path, count, force=force) as writer:
        for record in records:
            writer.append(record)
            last = record
        if last[: len(INDEX_MAGIC)] == INDEX_MAGIC:
            raise PackError(
                f"{path}: the last record begins like the index of a pack, so programs would "
                "take the file for a pack; convert --to pack"
            )


def write_folder(path: str, records: Iterable[Record], count: int, *, force: bool = False) -> None:
    """Write a pack with a file per record, named by its number as in a mount."""
    entries = EntryList()
    entries.describe_folder(0, 0, UNKNOWN_TIME_NS)
    with writing(path, count + 1, force=force) as writer:
        for name, record in zip(record_names(count), records, strict=True):
            writer.append(record)
            entries.add_files(0, [(name.encode(), len(record), 0, UNKNOWN_TIME_NS)])
        entries.number()
        writer.append_index(entries)


def record_names(count: int) -> Iterator[str]:
    """Yield the names of `count` records, as native/tree/flat_tree.cc makes them."""
    digits = max(NUMBER_DIGITS_MIN, len(str(count - 1)))
    for number in range(count):
        yield f"{number:0{digits}}"
