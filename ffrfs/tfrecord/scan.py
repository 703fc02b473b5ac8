"""Scan: what reads the records of one TFRecord file from front to end.

There are two: FileScan (file_scan.py, native, uncompressed regular files) and StreamScan
(stream_scan.py, pure Python, everything else). Both are held to the same answers by one
suite of tests. Concurrency: one thread at a time.
"""

from __future__ import annotations

from typing import Protocol


class Scan(Protocol):
    """Records of one file from front to end."""

    def read(self) -> list[bytes]:
        """Return the next records, verified, at least one; [] at the end of the file.

        Raises ChecksumError for a record whose data does not match while its length was
        verified: the scan is then behind it, and read() may be called again. Raises
        TruncatedError or FormatError (impossible or corrupt length) where it cannot go
        on; every later read() raises the same again. Records before a bad one are handed
        out first.
        """
        ...

    def close(self) -> None: ...
