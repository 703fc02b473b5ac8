"""Types of the native core (native/python/module.cc).

Concurrency: every object may be used from several threads; blocking calls release the
GIL. After fork() the child may go on using an object: what cannot be shared between
processes (threads, AIO contexts) is made anew there.

Paths go in as bytes (os.fsencode). Errors: ffrfs.errors, with their fields; plain OSErrors for
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
        """Files whose header carries no checksum (an old writer's)."""
    def read(self, indices: Sequence[SupportsIndex]) -> list[RecordBytes]:
        """One 1-D uint8 array per index, in that order; each owns its memory."""
    def offsets(self, shard: int) -> NDArray[np.int64]:
        """count + 1 absolute byte offsets: where records begin, and the file ends."""
    def checksums(self, shard: int) -> NDArray[np.uint32]: ...
    def verify(self, first: int, count: int) -> list[tuple[int, Exception]]:
        """Read `count` records from `first`; (record, what is wrong) of the bad ones.

        Checks whatever `check_data` says. Any size of record in bounded memory.
        """
    def close(self) -> None: ...

class Pack:
    """An FFRecord file, opened once, with the mapped index that serves it, if it is sound."""

    def __init__(self, path: bytes) -> None: ...
    @property
    def is_folder(self) -> bool:
        """True: a packed folder."""
    @property
    def record_count(self) -> int: ...
    @property
    def index_kind(self) -> Literal["pack", "sidecar", ""]:
        """Where the index is; "": there is none."""
    @property
    def index_path(self) -> bytes | None:
        """Of the file that has the index."""
    @property
    def index_size_bytes(self) -> int:
        """0: there is none."""
    @property
    def shard(self) -> tuple[bytes, int, int] | None:
        """What the index says of the pack set: (id of 16 bytes, number of this pack, count)."""
    @property
    def warning(self) -> str:
        """A line on an index that was left aside; mostly ""."""
    @property
    def warning_within(self) -> str:
        """The same, for a text that names the pack already."""
    @property
    def is_index_stale(self) -> bool:
        """It was a sidecar of what the pack was before."""
    # These read the header and check it as a whole, at first use. FormatError.
    @property
    def header_verified(self) -> bool:
        """False: it carries no checksum (an old writer's)."""
    def offsets(self) -> NDArray[np.int64]:
        """count + 1 absolute byte offsets: where records begin, and the file ends."""
    def offset(self, record: int) -> int:
        """One of them; IndexError beyond. Unlike offsets() it needs no NumPy."""
    def find_fault(self) -> str:
        """Read all of the index and compare it with the pickle; what is wrong, or ""."""
    def verify(self, first: int, count: int, jobs: int = 0) -> list[tuple[int, Exception]]:
        """As Records.verify(); what the index says of large records is checked as well.

        `jobs`: threads; 0: as many as there are cores.
        """
    def open_tree(self) -> None:
        """For path_of(). FormatError, ChecksumError, UnsafeIndexError."""
    def path_of(self, record: int) -> bytes | None:
        """The path that shows it, if one does. FormatError, ChecksumError."""

def set_remote(get_link: Callable[[], int] | None, timeout_s: float) -> None:
    """Let paths be URLs: `get_link` gives the descriptor of a new link to the fetcher.

    It is called when the first URL is opened, in each process, and when a link has ended and
    something is waited for; perhaps on another thread. The descriptor is then the core's.
    A read gives up after `timeout_s`. None: URLs cannot be opened any more.
    """

def cached_index_path(file: bytes) -> bytes:
    """Where the index of that file may lie in the cache; b"": there is no cache."""

def sidecar_paths(pack: bytes) -> list[bytes]:
    """Where a sidecar of that pack may lie: beside it; then, if there is one, in the cache."""

def record_files(paths: Sequence[bytes]) -> list[bytes]:
    """The files behind paths that a Volume would open. FormatError, OSError as there."""

def folder_files(folder: bytes) -> tuple[list[bytes], list[bytes]]:
    """The packs (*.ffr) in a directory, and its TFRecord files (*.tfrecord*).

    In byte order of the names; no hidden files, no directories. The one rule for all.
    """

def is_pack_name(name: str) -> bool:
    """Whether folder_files() would count a file of that name among the packs."""

def header_checksum(begin: bytes) -> int:
    """What the header of an FFRecord file that begins so must hash to; 0: it does not say."""

def is_tfrecord(path: bytes) -> bool:
    """Whether the file is one, by its name or its first bytes. OSError."""

def claimed_records(path: bytes) -> tuple[int, int]:
    """How many records an FFRecord header says there are, and their bytes; (0, 0): it is none.

    For progress: nothing is checked but that so many fit into the file. OSError.
    """

class Frames:
    """TFRecord frames, gathered in memory until they are written. Keeps the GIL."""

    def __init__(self, capacity: int) -> None: ...
    def append(self, record: Buffer | str) -> bool:
        """Frame a record behind the others; False, and nothing is done, if there is no room.

        There never is for one of more than 64 KiB. BufferError: not contiguous.
        """
    def bytes(self) -> memoryview:
        """The frames, as they are until the next call of append()."""
    def clear(self) -> None: ...

class TFRecords:
    """One or several TFRecord files as one index space, read in blocking batches."""

    def __init__(
        self, paths: Sequence[bytes], check_data: bool = True, sidecar: bool = True
    ) -> None:
        """`sidecar`: take a file's index from the sidecar beside it, if that is sound."""
    @property
    def count(self) -> int: ...
    @property
    def counts(self) -> list[int]:
        """Records per file."""
    @property
    def mtimes_ns(self) -> list[int]:
        """When each file was last modified, as it was when it was opened."""
    @property
    def used_sidecars(self) -> list[bool]:
        """Per file: whether its index came from a sidecar."""
    def read(self, indices: Sequence[SupportsIndex]) -> list[bytes]: ...
    def scan(self, shard: int) -> TFRecordScan:
        """One of the files from front to end; keeps it open."""
    def offsets(self, shard: int) -> NDArray[np.int64]:
        """count + 1 absolute byte offsets: where frames begin, and the file ends."""
    def index_text(self, shard: int, first: int, count: int) -> bytes:
        """Up to `count` lines of a sidecar from record `first` on; b"" at the end."""
    def verify(self, first: int, count: int) -> list[tuple[int, Exception]]:
        """As Records.verify."""
    def close(self) -> None: ...

class TFRecordScan:
    """A TFRecord file from front to end. One thread at a time: ValueError for a second."""

    def __init__(self, path: bytes, check_data: bool = True) -> None:
        """`check_data=False` compares no checksum, neither of lengths nor of data."""
    def next(self) -> list[bytes]:
        """The next records, at least one; [] at the end. See ffrfs/tfrecord/scan.py."""
    def close(self) -> None:
        """Harmless when closed; next() raises ValueError then."""

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
    """A file that is made of its TFRecord's record (.npy, example.json), of any size.

    Holds the record, not the file. Each read takes a pass over the record.
    """

    @property
    def size(self) -> int: ...
    def read(self, offset: int, size: int) -> bytes:
        """Verified bytes; fewer than `size` only at the end of the file."""

class TreePart:
    """A part of a volume's tree: nothing here waits. Keeps the volume open.

    Of a mapped index each part is checked when it is first looked at: FormatError,
    ChecksumError or OSError then, for that call only.
    """

    def lookup(self, parent: int, name: bytes) -> int:
        """The inode, or 0."""
    def attributes(self, ino: int) -> Attributes | None: ...
    def parent(self, ino: int) -> int:
        """The inode of the folder that it stands in, or 0."""
    def list(self, ino: int, start: int, limit: int) -> builtins.list[tuple[bytes, Attributes]]:
        """Up to `limit` entries from position `start`, in byte order of the names."""
    def record(self, ino: int) -> tuple[int, int | None] | None:
        """(record number, CRC-32 if the file is the whole record); None: it is no file."""
    def target(self, ino: int) -> bytes:
        """Where a symbolic link leads; b"" of anything else."""

class Volume:
    """A tree over files of records: what is mounted, and what PackedFolder reads."""

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
        is shown. So is a shard that its set lacks; a pack that cannot be opened is its own
        error. `allow_missing`: the rest is shown, and `warnings` names them.

        `splits`: NAME/COUNT/NAME/COUNT…: the paths are TFRecord files, of which the next COUNT
        are shown in the folder NAME, in byte order of the names; a single "" means the root.
        """
    @property
    def paths(self) -> builtins.list[bytes]:
        """The files that serve, in the order of the records."""
    @property
    def packs(self) -> builtins.list[Pack]:
        """The same files, which must be FFRecord files. They keep the volume open."""
    @property
    def warnings(self) -> builtins.list[str]:
        """What was left aside, a line each: a stale index, a missing shard."""
    @property
    def is_folder(self) -> bool:
        """True: packed folders."""
    @property
    def is_examples(self) -> bool:
        """True: TFRecord, a folder per record. Neither: a plain FFRecord, a file per record."""
    @property
    def file_count(self) -> int:
        """Of files that are known without reading a record; 0 if `is_examples`."""
    @property
    def directory_count(self) -> int:
        """With the root; of `is_examples` those of the records only."""
    @property
    def record_count(self) -> int:
        """Records of all files, the indexes among them."""
    @property
    def byte_count(self) -> int:
        """Size of all records together."""
    @property
    def unverified_paths(self) -> builtins.list[bytes]:
        """Files whose header carries no checksum (an old writer's)."""
    @property
    def eventfd(self) -> int:
        """Becomes readable when poll() has something to do. Owned by the volume."""

    # For an engine. None waits for the disk: the result comes at once; else None, and
    # poll() returns `token`. No byte leaves without a checksum that covers it (unless
    # check_data=False).
    def load_tree(self, ino: int, token: int) -> TreePart | None:
        """The part of the tree that knows `ino`."""
    def load_directory(self, ino: int, token: int) -> TreePart | None:
        """The part that knows the entries of folder `ino`."""
    def read(self, ino: int, offset: int, size: int, token: int) -> Slice | None:
        """Shorter than `size` only at the end of the file."""
    def poll(self) -> builtins.list[tuple[int, Slice | TreePart | Exception]]:
        """What has finished since. Never waits."""
    def start_prefetch(self, push: Callable[[int, int, memoryview], bool]) -> None:
        """Follow hints, and read ahead of readers who keep to an order.

        `push(ino, offset, data)` gives the kernel bytes, which are there while it runs;
        False: it does not take them. It is called on threads of the volume's.
        """
    def stop_prefetch(self) -> None:
        """No more push() begins; waits for those that have, 5 s at most."""
    def take_hints(self, fd: int) -> None:
        """Follow the hints that come over that socket (ffrfs/mount/client/hint_stream.py). Takes it
        over, and closes it when its client has gone, or is one too many.
        """
    def limit_cache(self, limit_bytes: int) -> None:
        """Hold at most that from now on, in the place of `cache_bytes`, which still decides
        what can be read at all (large records of TFRecord, what is made of them).
        """
    def warm(self, ino: int) -> None:
        """Push all files at and below that inode which the kernel knows, in the background."""
    def limit_pushed(self, limit_bytes: int) -> None:
        """Let so much be in the kernel's page cache that was pushed and not read yet."""

    # For callers that wait; not to be mixed with the above on one volume. Of an FFRecord
    # file only bytes have to be waited for, not the tree.
    def resolve(self, path: bytes) -> int:
        """The inode of "a/b/c" ("" is the root), or 0."""
    def attributes(self, ino: int) -> Attributes | None: ...
    def list(self, ino: int, start: int, limit: int) -> builtins.list[tuple[bytes, Attributes]]:
        """As TreePart.list()."""
    def record(self, ino: int) -> tuple[int, int | None] | None:
        """As TreePart.record()."""
    def target(self, ino: int) -> bytes:
        """As TreePart.target()."""
    def stored(self, ino: int) -> tuple[int, int] | None:
        """(permissions, mtime in ns) as they were packed; None: nobody knows."""
    def read_wait(self, ino: int, offset: int, size: int) -> Slice:
        """As read()."""
    def read_files(self, inos: Sequence[int]) -> builtins.list[RecordBytes]:
        """Whole files in one batch, as Records.read."""
    def made_file(self, ino: int) -> MadeFile | None:
        """Reads its record. None: the file is not made, but stands in the pack as it is."""
    def find_too_deep(self, ino: int) -> int:
        """A folder that lies more than 1024 folders below folder `ino`, or 0."""

    def path(self, ino: int) -> bytes:
        """ "a/b/c"; "" for the root. As far as it is known without reading a record."""
    def file_of(self, record: int) -> int:
        """The inode of a record's file or folder, or 0."""
    def verify(self, first: int, count: int) -> builtins.list[tuple[int, Exception]]: ...
    def counter_page(self) -> bytes:
        """Everything counted so far, as native/stats/counter_page.h lays it out."""
    def count_request(self, kind: str, ino: int, elapsed_ns: int) -> None:
        """An engine has answered one about `ino` (0: about no file); `kind` is one of
        native/stats/request_times.h."""
    def note_failure(self, ino: int) -> int:
        """Count a failure to read. If it is to be logged, once a minute per file, or per folder
        that a record holds: the inode that it counts for; else 0.
        """
    def close(self) -> None: ...

_ManifestRow: TypeAlias = tuple[int, int, bytes, int, int, int, bytes]

class Manifest:
    """What is to be packed: the entries of a folder, compact, and which record each becomes.

    Folders, files and links are each numbered from 0 in the order in which they are added;
    folder 0, the root, is there from the beginning. About 40 bytes an entry, and its name.
    Several threads may read it at a time; ValueError if one changes it meanwhile. After a
    fork() both have it.

    Names are 1 to 255 bytes of UTF-8 without "/" and NUL, not "." or ".."; else ValueError.
    Modes: permission bits, others are dropped. Times: ns since 1970.
    """

    def __init__(self) -> None: ...
    def add_folder(self, parent: int, name: bytes, mode: int, mtime_ns: int) -> int:
        """Return its number. PackError if it is more than 1024 folders deep."""
    def drop_folder(self, folder: int) -> None:
        """Take back the folder that was added last; ValueError if something is in it."""
    def add_files(self, parent: int, files: Iterable[tuple[bytes, int, int, int]]) -> int:
        """Add (name, size, mode, mtime_ns) each; return the number of the first."""
    def add_found(self, parent: int, folder: int, path: bytes) -> list[bytes]:
        """Add the regular files in the folder that is open as `folder`.

        Return the names of all else in it: also of files with names that no entry can have,
        and of what the kernel tells nothing of. `path`: for errors. Raises OSError.
        """
    def add_link(self, parent: int, name: bytes, target: bytes, mtime_ns: int) -> None:
        """Add a symbolic link. `target`: 1 to 4095 bytes without NUL, else ValueError."""
    def describe_folder(self, folder: int, mode: int, mtime_ns: int) -> None:
        """Say what was not known when it was added; of the root, before: 0o755 and 0."""
    def normalize(self, mtime_ns: int) -> None:
        """Show one time for all, and permissions 0755 (folders, what anybody may run) or 0644.

        The files on the disk are held to what was added all the same.
        """
    @property
    def file_count(self) -> int: ...
    @property
    def folder_count(self) -> int:
        """Without the root."""
    @property
    def link_count(self) -> int: ...
    @property
    def byte_count(self) -> int:
        """The sizes of all files."""
    def sizes(self) -> NDArray[np.uint64]:
        """Of each file, by its number."""
    def paths(self, files: Sequence[int]) -> list[bytes]:
        """The paths from the root, "a/b.png", of files by their numbers."""
    def share(self, file: int, original: int) -> None:
        """Let `file` show the record of `original`, which shares nobody's. Then number()."""

    # What follows sorts the entries first: PackError if a name stands twice in a folder.
    def find(self, path: bytes) -> int | None:
        """The number of the file "a/b.png"; None: there is none."""
    def number(self, order: Literal["path", "size"] = "path") -> None:
        """Give each file that shares nobody's record one of its own, from 0 on.

        "path": depth first, names in byte order, files and folders mixed, as the reference
        packs. "size": the smallest first; equal ones by path.
        """
    def number_by(self, files: Sequence[int]) -> None:
        """Records in the order of these files; all others follow, by path.

        ValueError if one is named twice; one that shares a record has no place of its own.
        """

    # ValueError before number(), and when something was added since.
    @property
    def record_count(self) -> int: ...
    def files(self, first: int, count: int) -> list[int]:
        """The numbers of the files that become records `first` and following."""
    def costs(self, first: int, count: int) -> list[int]:
        """What each of these records takes in a pack, as far as it can be told before.

        A link, or an empty folder, is in the pack of the first file that follows it by path,
        where the links of a folder come before all else in it; the last ones are in the last.
        """
    def rows(self, first: int, count: int) -> list[_ManifestRow]:
        """Of each record what goes with it, its file, and those that share it.

        A row: (record, folder, name, size, mode, mtime_ns, target of a link); an empty folder has
        no name. Of a list without records all that there is.
        """
    def folder(self, number: int) -> tuple[int, bytes, int, int]:
        """Its parent, name, permissions and time; 0 is the root."""
    def listing(self, first: int, count: int) -> tuple[bytes, bytes, bytes]:
        """Of the files of these records the names, sizes and times: what says which list it is.

        A name ends with "/"; before the first one of a folder is its path between two NULs.
        """

PACK_COST: int  # what a pack takes besides its files

def file_cost(size: int, name: str) -> int: ...
def link_cost(name_size: int, target_size: int) -> int: ...
def folder_cost(depth: int, path_size: int) -> int:
    """Of a folder and those above it: paid by a file in another folder than the one before."""

class Writer:
    """Writes one FFRecord file; it appears under its name at finish(), whole, or never."""

    def __init__(self, path: bytes, count: int) -> None: ...
    @property
    def count(self) -> int:
        """Records announced."""
    @property
    def written(self) -> int: ...
    def append(self, data: Buffer) -> None: ...
    def append_pieces(self, pieces: Iterable[Buffer]) -> int:
        """Append one record of any size, piece by piece; return its size.

        What `pieces` raises comes out, and the writer is closed.
        """
    def append_folder(
        self,
        folder: Manifest,
        root: bytes,
        first: int,
        count: int,
        jobs: int,
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        """Append `count` records of the list from record `first` on: the files below `root`.

        `jobs` threads read and write. `progress(files, bytes)` is called from this
        thread, with totals of this call, about ten times a second. A file that
        changes while it is read, is not a regular file of the list's size, or has
        another time: PackError.
        """
    def append_index(
        self,
        folder: Manifest,
        first: int = 0,
        count: int | None = None,
        *,
        shard: tuple[bytes, int, int] | None = None,
    ) -> None:
        """Append the last record, the index of a pack that holds these records of the list.

        It shows the files of `count` records (None: all) from `first` on, and the folders
        that they stand in; `rest`: also the empty folders and the links. `shard`: (16 bytes
        that all shards of the set have, number of this one, how many there are).
        RecordCountError unless exactly those records have been written.
        """
    def finish(self, *, replace: bool = True) -> None:
        """Write the header, sync, rename. RecordCountError if the count does not fit.

        Without `replace`, FileExistsError if something has the name by now.
        """
    def abort(self) -> None:
        """Leave nothing behind. Harmless after finish()."""

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
# "variable": (indices, values, dense shape); else dense.
ParsedColumn = NDArray[Any] | tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64]]

class ExampleParser:
    """Parses serialised Examples by one set of features; immutable.

    Each call returns one column per feature, in their order. What the layouts and
    columns are, ffrfs.tfrecord.parsing.parse says. FormatError for what does not fit.
    """

    def __init__(self, features: Sequence[FeatureConfig]) -> None: ...
    def parse(self, serialized: Iterable[Buffer | RecordBytes]) -> list[ParsedColumn]: ...
    def parse_one(self, serialized: Buffer | RecordBytes, name: str = "") -> list[ParsedColumn]: ...
    def parse_context(self, serialized: Buffer | RecordBytes, name: str = "") -> list[ParsedColumn]:
        """Of a SequenceExample."""
    def parse_lists(self, serialized: Buffer | RecordBytes, name: str = "") -> list[ParsedColumn]:
        """Feature lists of a SequenceExample; a row per step."""

def crc32(data: Buffer, seed: int = 0) -> int:
    """As zlib.crc32."""

def crc32c(data: Buffer, seed: int = 0) -> int: ...
