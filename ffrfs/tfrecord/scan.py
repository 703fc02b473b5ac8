"""Scan: the interface for reading the records of one TFRecord file from front to end.

There are two: the native core's TFRecordScan (uncompressed regular files) and StreamScan
(stream_scan.py, pure Python, everything else). One suite of tests checks that both give the
same answers. Concurrency: one thread at a time.
"""

from __future__ import annotations

from typing import Protocol


class Scan(Protocol):
    """Reads the records of a file from front to end."""

    def read(self) -> list[bytes]:
        """Return the next records, verified, at least one; [] at the end of the file.

        Raises ChecksumError for a record with a correct length whose data do not match: the
        scan is then behind it, and read() may be called again. Raises TruncatedError or
        FormatError (impossible or corrupt length) if it cannot continue; every later read()
        raises the same again. Records before a bad one are returned first.
        """
        ...

    def close(self) -> None: ...
