"""verify: reads every record of TFRecord files and compares its checksum.

It reads as tf_record_iterator() does, so compressed files too. Not here: finding the files
(shards.py), printing (ffrfs.cli).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from ffrfs.errors import ChecksumError, FormatError, text_within
from ffrfs.printable import shown_name
from ffrfs.tfrecord.iterator import tf_record_iterator


class BadRecord(NamedTuple):
    file: str
    record: int  # its number in this file
    reason: str  # with the offset
    is_last: bool  # the begin of the next record is unknown; the rest was not checked


Found: TypeAlias = Callable[[BadRecord], object]  # called with each when it is found


class VerifyReport(NamedTuple):
    record_count: int  # of good and bad records
    byte_count: int  # of the data of good records
    bad: list[BadRecord]


def verify(
    files: Sequence[str],
    progress: Callable[[int, int], object] | None = None,
    found: Found | None = None,
) -> VerifyReport:
    """Read all of `files`. Raises OSError if one cannot be read.

    `progress` is called with the records and the bytes so far, after each record.
    """
    record_count = byte_count = 0
    bad: list[BadRecord] = []
    for file in files:
        first = record_count
        with tf_record_iterator(file) as records:
            while True:
                try:
                    record = next(records, None)
                except (ChecksumError, FormatError) as error:
                    is_last = not isinstance(error, ChecksumError)
                    reason = text_within(error, os.fspath(file))
                    bad.append(BadRecord(shown_name(file), record_count - first, reason, is_last))
                    record_count += 1
                    if found is not None:
                        found(bad[-1])
                    if is_last:
                        break
                    continue
                if record is None:
                    break
                record_count += 1
                byte_count += len(record)
                if progress is not None:
                    progress(record_count, byte_count)
    return VerifyReport(record_count, byte_count, bad)
