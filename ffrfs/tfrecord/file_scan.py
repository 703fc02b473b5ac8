"""FileScan: the records of an uncompressed TFRecord file, read by the native core.

Not here: compressed files and pipes (stream_scan.py), the policy for a bad record
(iterator.py), random access (reader.py). Concurrency: one thread at a time, and reading
in a second one raises ValueError; the child of a fork() may continue where its parent was.
"""

from __future__ import annotations

import os

from ffrfs._native import TFRecordScan


class FileScan:
    """A Scan (scan.py) of the regular file `path`.

    `check_data=False` compares no checksum. Memory: the records that one read() returns,
    up to 8 MiB or one record, and a window of 256 KiB.
    """

    def __init__(self, path: str | os.PathLike[str], check_data: bool = True) -> None:
        self._scan = TFRecordScan(os.fsencode(path), check_data)
        self.read = self._scan.next
        self.close = self._scan.close
