"""Reads an object, or a file, from front to end, for readers in Python: compressed TFRecord files.

Concurrency: one thread at a time.
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from ffrfs.remote.paths import let_urls_in
from ffrfs.remote.url import is_url

if TYPE_CHECKING:
    from typing_extensions import Buffer


class RemoteStream(io.RawIOBase):
    """An object as a raw stream. Raises RemoteError and its subclasses; OptionError: not a URL."""

    def __init__(self, url: str) -> None:
        from ffrfs._native import Source

        super().__init__()
        let_urls_in([url])
        self._source = Source(url.encode())
        self._at = 0

    @property
    def size(self) -> int:
        return self._source.size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        with memoryview(buffer).cast("B") as view:
            count = self._source.read_into(self._at, view)
        self._at += count
        return count

    def close(self) -> None:
        if not self.closed:
            del self._source
        super().close()


def open_stream(name: str) -> io.FileIO | RemoteStream:
    """Open a file, or the object of a URL, as a raw stream. Raises OSError, and as RemoteStream."""
    return RemoteStream(name) if is_url(name) else io.FileIO(name)


def size_of(name: str) -> int:
    """Return the size of a file, or of the object of a URL, in bytes. Raises as open_stream()."""
    if not is_url(name):
        return os.path.getsize(name)
    with RemoteStream(name) as stream:
        return stream.size
