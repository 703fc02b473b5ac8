"""Types of the native core (native/python/module.cc).

Concurrency: every object may be used from several threads; blocking calls release the
GIL. After fork() the child may continue to use an object, which replaces what processes cannot
share (threads, AIO contexts) there.

Paths are bytes (os.fsencode). Errors: ffrfs.errors, with their fields; plain OSErrors for
system calls, IndexError for record numbers.
"""

import builtins
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, SupportsIndex, TypeAlias

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
        """Files whose header has no checksum (an old writer's)."""
    def read(self, indices: Sequence[SupportsIndex]) -> list[RecordBytes]:
        """Return one 1-D uint8 array per index, in that order; each owns its memory."""
    def offsets(self, shard: int) -> NDArray[np.int64]:
        """Return count + 1 absolute byte offsets: the begins of records, and the file's end."""
    def checksums(self, shard: int) -> NDArray[np.uint32]: ...
    def verify(self, first: int, count: int) -> list[tuple[int, Exception]]:
        """Read `count` records from `first`; return (record, error) for the bad ones.

        Verifies whatever `check_data` is. Records of any size take bounded memory.
        """
    def close(self) -> None: ...

class Pack:
    """An FFRecord file, opened once, with the mapped index that is used for it, if it is sound."""

    def __init__(self, path: bytes) -> None: ...
    @property
    def is_folder(self) -> bool:
        """Whether it is a packed folder."""
    @property
    def record_count(self) -> int: ...
    @property
    def index_kind(self) -> Literal["pack", "sidecar", ""]:
        """The place of the index; "": there is none."""
    @property
    def index_path(self) -> bytes | None:
        """The path of the file that has the index."""
    @property
    def index_size_bytes(self) -> int:
        """The size of the index; 0: there is none."""
    @property
    def shard(self) -> tuple[bytes, int, int] | None:
        """The index's entry about the pack set: (id of 16 bytes, number of this pack, count)."""
    @property
    def warning(self) -> str:
        """A line about an index that was ignored; usually ""."""
    @property
    def warning_within(self) -> str:
        """The same, for a text that names the pack already."""
    @property
    def is_index_stale(self) -> bool:
        """Whether the index is a sidecar of an older state of the pack."""
    # These read the header and check it as a whole, at first use. FormatError.
    @property
    def header_verified(self) -> bool:
        """Whether the header has a checksum (an old writer's has none)."""
    def offsets(self) -> NDArray[np.int64]:
        """Return count + 1 absolute byte offsets: the begins of records, and the file's end."""
    def offset(self, record: int) -> int:
        """Return one of them; IndexError beyond. Unlike offsets() it needs no NumPy."""
    @staticmethod
    def size_summary(packs: Sequence[Pack], are_folders: bool) -> list[int]:
        """Return [count, sum, least, median, most] of the sizes of all records; zeros for none.

        `are_folders`: the last record of each pack is its index, and does not count.
        """
    def find_fault(self) -> str:
        """Read all of the index and compare it with the pickle; return the fault, or ""."""
    def verify(self, first: int, count: int, jobs: int = 0) -> list[tuple[int, Exception]]:
        """Verify as Records.verify(), and also the index's entries about large records.

        `jobs`: threads; 0: as many as there are cores.
        """
    def open_tree(self) -> None:
        """Open the tree, for path_of(). FormatError, ChecksumError, UnsafeIndexError."""
    def path_of(self, record: int) -> bytes | None:
        """Return the path of the record's file, or None. FormatError, ChecksumError."""

def set_remote(get_link: Callable[[], int] | None, timeout_s: float) -> None:
    """Let paths be URLs: `get_link` gives the descriptor of a new link to the fetcher.

    It is called when the first URL is opened, in each process, and when a link has ended while
    a request waits; perhaps on another thread. The core then owns the descriptor.
    A read gives up after `timeout_s`. None: URLs cannot be opened any more.
    """

def replace_link(link: int) -> None:
    """Use this link to another fetcher, which opens all objects again. The core then owns it."""

class Source:
    """The bytes of a file, or of an object at a URL; not verified. One thread at a time."""

    def __init__(self, path: bytes) -> None: ...
    @property
    def size(self) -> int: ...
    def read_into(self, offset: int, target: Buffer) -> int:
        """Fill `target`, or less of it at the end of the file; return the number of bytes."""

def cached_index_path(file: bytes) -> bytes:
    """Return the path for the index of a file in the cache; b"" if there is no cache."""

def sidecar_paths(pack: bytes) -> list[bytes]:
    """Return the paths for a sidecar of that pack: beside it; then in the cache, if it exists."""

def record_files(paths: Sequence[bytes]) -> list[bytes]:
    """Return the files behind paths that a Volume would open. FormatError, OSError as there."""

def folder_files(folder: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the packs (*.ffr) in a directory, and its TFRecord files (*.tfrecord*).

    They are in byte order of the names; no hidden files, no directories. All code uses this rule.
    """

def is_pack_name(name: bytes) -> bool:
    """Return whether folder_files() would count a file of that name among the packs."""

def header_checksum(begin: bytes) -> int:
    """Return the checksum that an FFRecord header with this begin must have; 0: it has none."""

def is_tfrecord(path: bytes) -> bool:
    """Return whether the file is TFRecord, by its name or its first bytes. OSError."""

def claimed_records(path: bytes) -> tuple[int, int]:
    """Return the numbers of records and bytes in an FFRecord header; (0, 0): it is no such file.

    For progress: checks only that the file can hold so many records. Raises OSError.
    """

class Frames:
    """TFRecord frames, gathered in memory until they are written. It keeps the GIL."""

    def __init__(self, capacity: int) -> None: ...
    def append(self, record: Buffer | str) -> bool:
        """Frame a record behind the others; return False, doing nothing, if there is no room.

        There is never room for more than 64 KiB. BufferError: the buffer is not contiguous.
        """
    def bytes(self) -> memoryview:
        """Return the frames, which stay unchanged until the next call of append()."""
    def clear(self) -> None: ...

class TFRecords:
    """One or several TFRecord files as one index space, read in blocking batches."""

    def __init__(
        self, paths: Sequence[bytes], check_data: bool = True, sidecar: bool = True
    ) -> None:
        """`sidecar`: use the index of the sidecar beside a file, if that is sound."""
    @property
    def count(self) -> int: ...
    @property
    def counts(self) -> list[int]:
        """Records per file."""
    @property
    def mtimes_ns(self) -> list[int]:
        """The modification time of each file when it was opened."""
    @property
    def used_sidecars(self) -> list[bool]:
        """Per file: whether its index came from a sidecar."""
    def read(self, indices: Sequence[SupportsIndex]) -> list[bytes]: ...
    def scan(self, shard: int) -> TFRecordScan:
        """Return a scan of one of the files from front to end; it keeps the file open."""
    def offsets(self, shard: int) -> NDArray[np.int64]:
        """Return count + 1 absolute byte offsets: the begins of frames, and the file's end."""
    def index_text(self, shard: int, first: int, count: int) -> bytes:
        """Return up to `count` lines of a sidecar from record `first` on; b"" at the end."""
    def verify(self, first: int, count: int) -> list[tuple[int, Exception]]:
        """Verify as Records.verify() does."""
    def close(self) -> None: ...

class TFRecordScan:
    """A Scan (ffrfs/tfrecord/scan.py) of an uncompressed file.

    One thread at a time: ValueError for a second; the child of a fork() may continue where its
    parent was. Memory: the records of one read(), up to 8 MiB or one record, and 256 KiB.
    """

    def __init__(self, path: bytes, check_data: bool = True) -> None:
        """`check_data=False` compares no checksum, neither of lengths nor of data."""
    def read(self) -> list[bytes]: ...
    def close(self) -> None:
        """Close the file; read() raises ValueError then. It may be closed already."""

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

class MadeFile:
    """A file that is rendered from its TFRecord's record (.npy, example.json), of any size.

    It holds the record, not the file. Each read takes a pass over the record.
    """

    @property
    def size(self) -> int: ...
    def read(self, offset: int, size: int) -> bytes:
        """Return verified bytes; fewer than `size` only at the end of the file."""

class TreePart:
    """A part of a volume's tree: no call waits. It keeps the volume open.

    Each part of a mapped index is checked when it is first used: FormatError, ChecksumError
    or OSError then, for that call only.
    """

    def lookup(self, parent: int, name: bytes) -> int:
        """Return the inode, or 0."""
    def attributes(self, ino: int) -> Attributes | None: ...
    def parent(self, ino: int) -> int:
        """Return the inode of the folder that contains it, or 0."""
    def list(self, ino: int, start: int, limit: int) -> builtins.list[tuple[bytes, Attributes]]:
        """Return up to `limit` entries from position `start`, in byte order of the names."""
    def record(self, ino: int) -> tuple[int, int | None] | None:
        """Return (record number, CRC-32 if the file is the whole record); None: it is no file."""
    def target(self, ino: int) -> bytes:
        """Return the target of a symbolic link; b"" for any other entry."""

class Volume:
    """A tree over files of records, for mounts and PackedFolder."""

    def __init__(
        self,
        paths: Sequence[bytes],
        *,
        uid: int,
        gid: int,
        umask: int = 0,
        cache_bytes: int = 256 << 20,
        check_data: bool = True,
        extensions: bool = True,
        splits: str = "",
        on_conflict: Literal["error", "first", "last"] = "error",
        allow_missing: bool = False,
        prefetch_records: int = 512,
        prefetch_bytes: int = 64 << 20,
        prefetch_ttl_ms: int = 60_000,
        read_around: str = "auto",
    ) -> None:
        """`paths`: an FFRecord file, a TFRecord file, or a folder of TFRecord files; or packed
        folders, any number, and folders of them (*.ffr), which are shown as one tree.

        A path in two packs is a FormatError that names both, or the `first` or `last` pack's
        is shown. A missing shard of a set is a FormatError; a pack that cannot be opened raises
        its own error. `allow_missing`: the rest is shown, and `warnings` names them.

        `splits`: NAME/COUNT/NAME/COUNT…: the paths are TFRecord files, of which the next COUNT
        are shown in the folder NAME, in byte order of the names; a single "" means the root.
        """
    @property
    def paths(self) -> builtins.list[bytes]:
        """The files of records, in the order of the records."""
    @property
    def packs(self) -> builtins.list[Pack]:
        """The same files, which must be FFRecord files. They keep the volume open."""
    @property
    def warnings(self) -> builtins.list[str]:
        """The ignored parts, a line each: a stale index, a missing shard."""
    @property
    def is_folder(self) -> bool:
        """Whether it shows packed folders."""
    @property
    def is_examples(self) -> bool:
        """Whether it shows TFRecord, a folder per record. A plain FFRecord file is neither."""
    @property
    def file_count(self) -> int:
        """The number of files that are known without reading a record; 0 if `is_examples`."""
    @property
    def directory_count(self) -> int:
        """The number of directories with the root; if `is_examples`, only those of records."""
    @property
    def inode_count(self) -> int:
        """The number of files, directories and symbolic links, as far as the two above say."""
    @property
    def record_count(self) -> int:
        """The number of records of all files, including the indexes."""
    @property
    def byte_count(self) -> int:
        """Size of all records together."""
    @property
    def unverified_paths(self) -> builtins.list[bytes]:
        """Files whose header has no checksum (an old writer's)."""
    @property
    def eventfd(self) -> int:
        """Becomes readable when poll() has something to do. The volume owns it."""

    # These are for an engine. None waits for the disk: it returns the result at once; else None,
    # and poll() returns `token`. No byte leaves without a checksum that covers it (unless
    # check_data=False).
    def load_tree(self, ino: int, token: int) -> TreePart | None:
        """Return the part of the tree that has `ino`."""
    def load_directory(self, ino: int, token: int) -> TreePart | None:
        """Return the part that has the entries of folder `ino`."""
    def read(self, ino: int, offset: int, size: int, token: int) -> Slice | None:
        """Return bytes, fewer than `size` only at the end of the file."""
    def poll(self) -> builtins.list[tuple[int, Slice | TreePart | Exception]]:
        """Return the results that have come since the last call. Never waits."""
    def start_prefetch(self, push: Callable[[int, int, memoryview], bool]) -> None:
        """Follow hints, and read ahead of readers that keep to an order.

        `push(ino, offset, data)` gives the kernel bytes, which are valid during the call;
        False: the kernel refuses them. Threads of the volume call it.
        """
    def stop_prefetch(self) -> None:
        """Begin no more push(); wait for those that are running, 5 s at most."""
    def take_hints(self, fd: int) -> None:
        """Follow the hints of a socket (ffrfs/mount/client/hint_stream.py), and take ownership
        of it; it is closed when its client has gone, or there are too many clients.
        """
    def limit_cache(self, limit_bytes: int) -> None:
        """Hold at most that from now on, instead of `cache_bytes`, which still decides
        what can be read at all (large records of TFRecord, files rendered from them).
        """
    def warm(self, ino: int) -> None:
        """Push all files at and below the inode that the kernel knows, in the background."""
    def limit_pushed(self, limit_bytes: int) -> None:
        """Limit the bytes in the kernel's page cache that were pushed and not read yet."""

    # These are for callers that wait; do not mix them with the above on one volume. For an
    # FFRecord file only bytes may have to be waited for, not the tree.
    def resolve(self, path: bytes) -> int:
        """Return the inode of "a/b/c" ("" is the root), or 0."""
    def attributes(self, ino: int) -> Attributes | None: ...
    def list(self, ino: int, start: int, limit: int) -> builtins.list[tuple[bytes, Attributes]]:
        """Return entries as TreePart.list() does."""
    def record(self, ino: int) -> tuple[int, int | None] | None:
        """Return the record as TreePart.record() does."""
    def target(self, ino: int) -> bytes:
        """Return the target as TreePart.target() does."""
    def stored(self, ino: int) -> tuple[int, int] | None:
        """Return the packed (permissions, mtime in ns); None: they are unknown."""
    def read_wait(self, ino: int, offset: int, size: int) -> Slice:
        """Return bytes as read() does."""
    def read_files(self, inos: Sequence[int]) -> builtins.list[RecordBytes]:
        """Return whole files in one batch, as Records.read() does."""
    def made_file(self, ino: int) -> MadeFile | None:
        """Read its record; return None if the file is stored, not rendered."""
    def find_too_deep(self, ino: int) -> int:
        """Return a folder that is more than 1024 folders below folder `ino`, or 0."""

    def path(self, ino: int) -> bytes:
        """Return "a/b/c"; "" for the root; as far as it is known without reading a record."""
    def file_of(self, record: int) -> int:
        """Return the inode of a record's file or folder, or 0."""
    def verify(self, first: int, count: int) -> builtins.list[tuple[int, Exception]]: ...
    def counter_page(self) -> bytes:
        """Return all counters so far, in the layout of native/stats/counter_page.h."""
    def count_request(self, kind: str, elapsed_ns: int) -> bool:
        """Count an engine's answer; `kind` is one of native/stats/request_times.h.

        Return whether it was so slow that it should be logged.
        """
    def describe_slow(self, kind: str, ino: int, elapsed_ns: int) -> bytes:
        """Return the line for the log of a slow request about `ino`; may wait for the disk."""
    def note_failure(self, ino: int) -> int:
        """Count a failure to read. Return the inode that it counts for if it shall be logged,
        once a minute per file, or per folder that a record holds; otherwise 0.
        """
    def close(self) -> None: ...

_EntryRow: TypeAlias = tuple[int, int, bytes, int, int, int, bytes]

class EntryList:
    """The list of entries to be packed, compact, with the record of each file.

    Folders, files and links are each numbered from 0 in the order in which they are added;
    folder 0, the root, exists from the beginning. An entry takes about 40 bytes, and its name.
    Several threads may read it at a time; ValueError if one changes it meanwhile. After a
    fork() both processes have it.

    Names are 1 to 255 bytes of UTF-8 without "/" and NUL, not "." or ".."; else ValueError.
    Modes are permission bits; other bits are dropped. Times are ns since 1970.
    """

    def __init__(self) -> None: ...
    def add_folder(self, parent: int, name: bytes, mode: int, mtime_ns: int) -> int:
        """Add a folder, return its number. PackError if it is more than 1024 folders deep."""
    def drop_folder(self, folder: int) -> None:
        """Remove the folder that was added last; ValueError if it is not empty."""
    def add_files(self, parent: int, files: Iterable[tuple[bytes, int, int, int]]) -> int:
        """Add (name, size, mode, mtime_ns) each; return the number of the first."""
    def add_found(self, parent: int, folder: int, path: bytes) -> list[bytes]:
        """Add the regular files in the folder that is open as `folder`.

        Return the names of all other entries: also of files with names that no entry can have,
        and of those whose kind the kernel does not tell. `path`: for errors. Raises OSError.
        """
    def add_link(self, parent: int, name: bytes, target: bytes, mtime_ns: int) -> None:
        """Add a symbolic link. `target`: 1 to 4095 bytes without NUL, else ValueError."""
    def describe_folder(self, folder: int, mode: int, mtime_ns: int) -> None:
        """Set attributes that were unknown when it was added; the root's are 0o755 and 0 before."""
    def normalize(self, mtime_ns: int) -> None:
        """Set one time for all, and permissions 0755 (folders, executable files) or 0644.

        The files on the disk are still compared with the added values.
        """
    @property
    def file_count(self) -> int: ...
    @property
    def folder_count(self) -> int:
        """The number of folders without the root."""
    @property
    def link_count(self) -> int: ...
    @property
    def byte_count(self) -> int:
        """The size of all files."""
    def sizes(self) -> NDArray[np.uint64]:
        """Return the size of each file, by its number."""
    def paths(self, files: Sequence[int]) -> list[bytes]:
        """Return the paths from the root, "a/b.png", of files by their numbers."""
    def share(self, file: int, original: int) -> None:
        """Let `file` show the record of `original`, which must have its own. Then call number()."""

    # These methods sort the entries first: PackError if a name comes twice in a folder.
    def find(self, path: bytes) -> int | None:
        """Return the number of the file "a/b.png", or None."""
    def number(self, order: Literal["path", "size"] = "path") -> None:
        """Give each file that shares no other's record a record, from 0 on.

        "path": depth first, names in byte order, files and folders mixed, as the reference
        packs. "size": smallest first; equal ones by path.
        """
    def number_by(self, files: Sequence[int]) -> None:
        """Number records in the order of these files; all others follow, by path.

        ValueError if a file comes twice; a file that shares a record has no place of its own.
        """

    # These raise ValueError before number(), and if entries were added since.
    @property
    def record_count(self) -> int: ...
    def files(self, first: int, count: int) -> list[int]:
        """Return the numbers of the files that become records `first` and following."""
    def costs(self, first: int, count: int) -> list[int]:
        """Return the bytes that each of these records takes in a pack, as far as they are known.

        A link, or an empty folder, is in the pack of the first file that follows it by path,
        where the links of a folder come before its other entries; the last ones are in the last.
        """
    def rows(self, first: int, count: int) -> list[_EntryRow]:
        """Return for each record its file, the files that share it, and entries that go with it.

        A row: (record, folder, name, size, mode, mtime_ns, target of a link); an empty folder has
        no name. A list without records returns all its entries.
        """
    def folder(self, number: int) -> tuple[int, bytes, int, int]:
        """Return a folder's parent, name, permissions and time; 0 is the root."""
    def listing(self, first: int, count: int) -> tuple[bytes, bytes, bytes]:
        """Return the names, sizes and times of the files of these records: they identify the list.

        A name ends with "/"; before the first one of a folder is its path between two NULs.
        """

PACK_COST: int  # bytes of a pack besides its files

def file_cost(size: int, name: str) -> int: ...
def link_cost(name_size: int, target_size: int) -> int: ...
def folder_cost(depth: int, path_size: int) -> int:
    """Return the cost of a folder and its parents, for a file in another folder than the last."""

class Writer:
    """Writes an FFRecord file; it appears under its name at finish(), whole, or never."""

    def __init__(self, path: bytes, count: int) -> None: ...
    @property
    def count(self) -> int:
        """The number of announced records."""
    @property
    def written(self) -> int: ...
    def append(self, data: Buffer) -> None: ...
    def append_pieces(self, pieces: Iterable[Buffer]) -> int:
        """Append one record of any size, piece by piece; return its size.

        An exception of `pieces` is passed on, and the writer is closed.
        """
    def append_folder(
        self,
        folder: EntryList,
        root: bytes,
        first: int,
        count: int,
        jobs: int,
        progress: Callable[[int, int], object] | None = None,
        symlinks: str = "follow",
    ) -> None:
        """Append `count` records of the list from record `first` on: the files below `root`.

        `symlinks`: which links below `root` may have replaced directories (the options of packing):
        "follow", "inside", or others: none.

        `jobs` threads read and write. `progress(files, bytes)` is called from this
        thread, with totals of this call, about ten times a second. A file that
        changes while it is read, is not a regular file of the list's size, or has
        another time: PackError.
        """
    def append_index(
        self,
        folder: EntryList,
        first: int = 0,
        count: int | None = None,
        *,
        shard: tuple[bytes, int, int] | None = None,
    ) -> None:
        """Append the last record, the index of a pack that holds these records of the list.

        It shows the files of `count` records (None: all) from `first` on, with their folders,
        links and empty folders. `shard`: (16 bytes that all shards of the set have, number of
        this one, number of shards). RecordCountError unless exactly those records have been
        written.
        """
    def finish(self, *, replace: bool = True) -> None:
        """Write the header, sync, rename. RecordCountError if the count does not fit.

        Without `replace`, FileExistsError if the name exists by now.
        """
    def abort(self) -> None:
        """Remove all that was written. It may be called after finish()."""

def write_sidecar(pack: bytes, target: bytes, chunks: bool) -> None:
    """Write an index for `pack`, made from its pickle, to the file `target`.

    `chunks`: read all records over 1 MiB, check them, and add checksums of their parts.
    FormatError if `pack` is no packed folder; ChecksumError if it is damaged.
    """

# (name, kind of value, layout, shape, default values in C order or None).
FeatureConfig = tuple[
    str,
    Literal["int64", "float32", "bytes"],
    Literal["fixed", "sequence", "variable"],
    tuple[int, ...],
    builtins.list[Any] | None,
]
# "variable": (indices, values, dense shape); other layouts: dense.
ParsedColumn = NDArray[Any] | tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64]]

class ExampleParser:
    """Parses serialised Examples by one set of features; immutable.

    Each call returns one column per feature, in their order. ffrfs.tfrecord.parsing.parse
    describes layouts and columns. FormatError for a record that does not fit.
    """

    def __init__(self, features: Sequence[FeatureConfig]) -> None: ...
    def parse(self, serialized: Iterable[Buffer | RecordBytes]) -> list[ParsedColumn]: ...
    def parse_one(self, serialized: Buffer | RecordBytes, name: str = "") -> list[ParsedColumn]: ...
    def parse_context(self, serialized: Buffer | RecordBytes, name: str = "") -> list[ParsedColumn]:
        """Return the columns of the context of a SequenceExample."""
    def parse_lists(self, serialized: Buffer | RecordBytes, name: str = "") -> list[ParsedColumn]:
        """Return the columns of the feature lists of a SequenceExample; a row per step."""

def crc32(data: Buffer, seed: int = 0) -> int:
    """Return the same as zlib.crc32()."""

def crc32c(data: Buffer, seed: int = 0) -> int: ...
