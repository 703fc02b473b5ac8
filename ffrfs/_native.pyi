"""Types of the native core (native/python/module.cc).

Concurrency: every object may be used from several threads; blocking calls release the
GIL. After fork() the child may go on using an object: what cannot be shared between
processes (threads, AIO contexts) is made anew there.

Paths go in as bytes (os.fsencode). Errors: ffrfs.errors, plain OSErrors for system calls,
IndexError for record numbers.
"""

import builtins
from collections.abc import Callable, Sequence
from typing import NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

RecordBytes = NDArray[np.uint8]

class Records:
    """One or several FFRecord files as one index space, read in blocking batches."""

    def __init__(self, paths: Sequence[bytes], check_data: bool = True) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def counts(self) -> list[int]:
        """Records per file."""
    @property
    def unverified_paths(self) -> list[bytes]:
        """Files whose header carries no checksum (an old writer's)."""
    def read(self, indices: Sequence[SupportsIndex]) -> list[RecordBytes]:
        """One 1-D uint8 array per index, in that order; each owns its memory."""
    def offsets(self, shard: int) -> NDArray[np.int64]:
        """count + 1 absolute byte offsets: where records begin, and the file ends."""
    def checksums(self, shard: int) -> NDArray[np.uint32]: ...
    def verify(self, first: int, count: int) -> list[tuple[int, str]]:
        """Read `count` records from `first`; (record, what is wrong) of the bad ones.

        Checks whatever `check_data` says. Any size of record in bounded memory.
        """
    def close(self) -> None: ...

class Attributes(NamedTuple):
    ino: int
    mode: int  # type and permission bits
    nlink: int
    uid: int
    gid: int
    size: int  # bytes
    mtime_ns: int

class Slice(Buffer):
    """Verified bytes, read-only; keeps its memory alive."""

    def __len__(self) -> int: ...

class Volume:
    """A tree over an FFRecord file: what is mounted, and what PackedFolder reads."""

    def __init__(
        self,
        path: bytes,
        *,
        uid: int,
        gid: int,
        umask: int = 0,
        cache_bytes: int = 256 << 20,
        check_data: bool = True,
    ) -> None: ...
    @property
    def is_folder(self) -> bool:
        """True: a packed folder; False: a plain FFRecord, one file per record."""
    @property
    def file_count(self) -> int: ...
    @property
    def directory_count(self) -> int:
        """With the root."""
    @property
    def record_count(self) -> int:
        """Records in the file, the index among them."""
    @property
    def byte_count(self) -> int:
        """Size of all records together."""
    @property
    def metadata_verified(self) -> bool:
        """False: the header carries no checksum (an old writer's)."""
    @property
    def eventfd(self) -> int:
        """Becomes readable when poll() has something to do. Owned by the volume."""

    # Namespace. Nothing here touches the disk.
    def lookup(self, parent: int, name: bytes) -> int:
        """The inode, or 0."""
    def resolve(self, path: bytes) -> int:
        """The inode of "a/b/c" ("" is the root), or 0."""
    def attributes(self, ino: int) -> Attributes | None: ...
    def list(self, ino: int, start: int, limit: int) -> builtins.list[tuple[bytes, Attributes]]:
        """Up to `limit` entries from position `start`, in byte order of the names."""
    def path(self, ino: int) -> bytes:
        """"a/b/c"; "" for the root."""
    def record(self, ino: int) -> tuple[int, int] | None:
        """(record number, CRC-32) of a file; None for a directory."""
    def file_of(self, record: int) -> int:
        """The inode of a record, or 0."""

    # Bytes. None leaves without a checksum that covers it (unless check_data=False).
    def read(self, ino: int, offset: int, size: int, token: int) -> Slice | None:
        """At once from memory or page cache; else None, and poll() returns `token`.

        Never waits for the disk. Shorter than `size` only at the end of the file.
        """
    def poll(self) -> builtins.list[tuple[int, Slice | Exception]]:
        """The reads that have finished since. Never waits."""
    def read_wait(self, ino: int, offset: int, size: int) -> Slice:
        """As read(), but waits. Not to be mixed with read() on one volume."""
    def read_files(self, inos: Sequence[int]) -> builtins.list[RecordBytes]:
        """Whole files in one batch, as Records.read."""
    def verify(self, first: int, count: int) -> builtins.list[tuple[int, str]]: ...
    def counter_page(self) -> bytes:
        """Everything counted so far, as native/volume/counter_page.h lays it out."""
    def count_request(self, kind: str, elapsed_ns: int) -> None:
        """An engine has answered one; `kind` is one of native/volume/request_times.h."""
    def failure_is_due(self, ino: int) -> bool:
        """Whether a read that failed is to be logged: once a minute per file."""
    def close(self) -> None: ...

class Writer:
    """Writes one FFRecord file; it appears under its name at finish(), whole, or never."""

    def __init__(self, path: bytes, count: int) -> None: ...
    @property
    def count(self) -> int:
        """Records announced."""
    @property
    def written(self) -> int: ...
    def append(self, data: Buffer) -> None: ...
    def append_files(
        self,
        files: Sequence[tuple[bytes, int]],
        jobs: int,
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        """Append each (path, expected size) as a record, in that order.

        `jobs` threads read and write. `progress(files, bytes)` is called from this
        thread, with totals of this call, about ten times a second. A file that
        changes while it is read, or is not a regular file of that size: PackError.
        """
    def finish(self) -> None:
        """Write the header, sync, rename. RecordCountError if the count does not fit."""
    def abort(self) -> None:
        """Leave nothing behind. Harmless after finish()."""

def crc32(data: Buffer, seed: int = 0) -> int:
    """As zlib.crc32."""

def crc32c(data: Buffer, seed: int = 0) -> int: ...
