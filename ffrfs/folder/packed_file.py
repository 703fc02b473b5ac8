"""PackedFile: a file of a pack as a file object, and open_packed() as the built-in open().

Bytes are read and verified on request: of a large file only the requested parts. A damaged
part raises ChecksumError, which names the path, at that read.

Not here: reading and caching (native core). Concurrency: several threads may use a buffered
file, one call at a time, as any other; a raw one is for one thread.
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from ffrfs.errors import SeekError
from ffrfs.printable import quoted

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ffrfs.folder.tree import PackTree, PathType

# Each read of the core has a fixed cost, and verifies at least a record or 1 MiB of it.
BUFFER_SIZE = 128 << 10
_READ_SIZE = 4 << 20  # largest read, as the core's memory for reads is shared by all

_BINARY = {"rb", "br"}
_TEXT = {"r", "rt", "tr"}


class PackedFile(io.RawIOBase):
    """The bytes of one file, from any position. `name`: its path in the pack."""

    def __init__(self, tree: PackTree, ino: int, name: str, size: int) -> None:
        self.name = name
        self._tree = tree
        self._ino = ino
        self._size = size
        self._position = 0

    @property
    def mode(self) -> str:
        return "rb"

    def readable(self) -> bool:
        self._check_open()
        return True

    def seekable(self) -> bool:
        self._check_open()
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Read into `buffer`, possibly less than its size. Raises ChecksumError; OSError."""
        self._check_open()
        target = memoryview(buffer).cast("B")
        size = min(len(target), _READ_SIZE)
        if not size or self._position >= self._size > 0:
            return 0
        piece = self._tree.read_at(self._ino, self._position, size)
        target[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)

    def readall(self) -> bytes:
        """Return all from here on; the base class would read it in pieces of 8 KiB."""
        found = io.BytesIO()
        buffer = bytearray(min(max(self._size - self._position, 1), _READ_SIZE))
        while size := self.readinto(buffer):
            found.write(memoryview(buffer)[:size])
        return found.getvalue()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check_open()
        begins = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}
        if whence not in begins:
            raise ValueError(f"whence is {whence}; it must be 0, 1 or 2")
        position = begins[whence] + offset
        if position < 0:
            raise SeekError.to(position, self.name)
        self._position = position
        return position

    def tell(self) -> int:
        self._check_open()
        return self._position

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError(f"{quoted(self.name)}: I/O operation on a closed file")

    def __repr__(self) -> str:
        return f"PackedFile({self.name!r})"


def open_packed(  # noqa: PLR0913, PLR0917 - the parameters of the built-in open()
    tree: PackTree,
    path: PathType,
    mode: str,
    buffering: int,
    encoding: str | None,
    errors: str | None,
    newline: str | None,
) -> io.IOBase:
    """Return the file object of PackedFolder.open()."""
    _check_mode(tree, path, mode)
    is_text = mode in _TEXT
    if not is_text and (encoding, errors, newline) != (None, None, None):
        raise ValueError("encoding, errors and newline are for text; add mode='r'")
    if is_text and buffering == 0:
        raise ValueError("text is always buffered; leave buffering out")
    ino = tree.file_ino(path)
    attributes = tree.volume.attributes(ino)
    assert attributes is not None
    raw = PackedFile(tree, ino, os.fsdecode(path), attributes.size)
    if buffering == 0:
        return raw
    if buffering < 0 or (is_text and buffering == 1):
        buffering = max(min(attributes.size, BUFFER_SIZE), 1)
    buffered = io.BufferedReader(raw, buffering)
    if not is_text:
        return buffered
    return io.TextIOWrapper(buffered, encoding, errors, newline)


def _check_mode(tree: PackTree, path: PathType, mode: str) -> None:
    if mode in _BINARY | _TEXT:
        return
    if set(mode) & set("wax+"):
        name = quoted(os.fsdecode(path))
        raise io.UnsupportedOperation(
            f"{tree.file}: cannot open {name} with mode {mode!r}: packs are read-only"
        )
    raise ValueError(f"mode {mode!r}: must be 'rb' for bytes, or 'r' for text")
