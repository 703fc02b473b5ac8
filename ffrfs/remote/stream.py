"""Reads an object from front to end, for readers in Python: compressed TFRecord files.

Concurrency: one thread at a time.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from ffrfs.remote.paths import let_urls_in

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
