"""One progress for copying, listing and packing an archive.

    a pipe       |==== copied ====|== listed ==|== packed ==|     each is as long as the archive
    a .tar.gz                     |== listed ==|== packed ==|
    a .tar, .zip                               |== packed ==|     listing skips the bytes of files

The progress counts bytes of the archive, and never goes back. Not here: drawing
(folder/progress.py).
Concurrency: one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from ffrfs.folder.progress import Progress


class ArchiveProgress:
    """A Progress of packing, which also counts copying and listing."""

    def __init__(self, show: Progress) -> None:
        self._show = show
        self._size = 0  # of the archive
        self._done = 0  # bytes of the phases that have ended
        self._listed_size = 0  # bytes that listing counts for
        self._read_size = 0  # bytes that listing has read
        self._file_count = 0

    def copied(self, size: int) -> None:
        """Report the number of bytes copied from a pipe so far; their total is unknown."""
        self._done = size
        self._show(0, 0, size, 0)

    def begin(self, size: int, reads_twice: bool) -> None:
        """Begin listing; `reads_twice`: it reads all of the archive's `size` bytes."""
        self._size = size
        self._listed_size = size if reads_twice else 0

    def listed(self, file_count: int) -> None:
        self._file_count = file_count
        self._show_listing()

    def read(self, size: int) -> None:
        """Report so many more bytes, while listing."""
        self._read_size += size
        self._show_listing()

    def end_listing(self) -> None:
        self._done += self._listed_size
        self._listed_size = 0

    def __call__(self, files: int, files_total: int, size: int, size_total: int) -> None:
        """Report the bytes of files that were packed."""
        packed = self._size * size // size_total if size_total else 0
        self._show(files, files_total, self._done + packed, self._total)

    def _show_listing(self) -> None:
        done = min(self._read_size, self._listed_size)
        self._show(self._file_count, 0, self._done + done, self._total)

    @property
    def _total(self) -> int:
        return self._done + self._listed_size + self._size


class WatchedFile:
    """The file `file`; calls `note` with the number of bytes after each read."""

    def __init__(self, file: BinaryIO, note: Callable[[int], object]) -> None:
        self._file = file
        self._note = note

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._note(len(data))
        return data

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)
