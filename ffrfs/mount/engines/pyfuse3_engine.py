"""The pyfuse3 engine: ten operations over a Volume, in Python.

Each handler asks the volume, which never waits for the disk, and answers at once. A read whose
bytes are not at hand has to wait, as has a look into the directory of a record that is not loaded
yet. Its task is then parked (late_answers.py), so that a stalled disk delays no other reader. The
kernel may cache names, attributes and bytes for a year: the tree cannot change.

Concurrency: one trio loop, one thread; a handler that need not wait runs to its end
without giving way. The volume's threads call push() alone. pyfuse3 has one session per
process.

Not here: checksums and caching (volume), the mount itself (kernel_mount.py). Only the engines
choose errno values.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

import pyfuse3
import trio
from pyfuse3 import (
    EntryAttributes,
    FileInfo,
    FUSEError,
    ReaddirToken,
    RequestContext,
    StatvfsData,
    readdir_reply,
)

from ffrfs._native import Attributes, Slice, TreePart, Volume
from ffrfs.errors import FfrfsError, MountError, TooLargeError, UnverifiedHeaderWarning, describe
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.engines.counter_page import Counters, parse
from ffrfs.mount.engines.late_answers import LateAnswers
from ffrfs.mount.engines.mount_fetcher import FetchingHere, MountFetcher
from ffrfs.mount.engines.read_failures import ReadFailures
from ffrfs.mount.engines.request_log import RequestLog

TIMEOUT_S = 365 * 24 * 3600
BLOCK_SIZE = 512  # unit of st_blocks, on every file system
STATFS_BLOCK_SIZE = 4096
NAME_MAX = 255
# Requests in flight, parked ones among them; the kernel itself sends at most about this many.
TASKS_MAX = 512
# The longest time that a withdrawn request may block the loop.
RECEIVE_LIMIT_S = 0.5
# Entries of one page of a listing: about as many as fit into a READDIRPLUS reply of 4 KiB.
LIST_COUNT = 32

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger(__name__)


class Pyfuse3Engine:
    """Serves one tree through pyfuse3 (see engine.Engine)."""

    name, transport = "pyfuse3", "dev"
    worker_pid = page = deaths = refusal = None
    may_use_rings = False

    def __init__(self, request: MountRequest) -> None:
        options = request.options
        self._fetching: MountFetcher | None = None
        with contextlib.ExitStack() as opened:
            if request.is_remote:
                self._fetching = FetchingHere(request)
                opened.callback(self._fetching.close)
            packs = [os.fsencode(pack) for pack in request.packs]
            self._volume = Volume(packs, **request.volume_options())
            opened.callback(self._volume.close)
            self._opened = opened.pop_all()
        self.failures = ReadFailures()
        self._operations = TreeOperations(self._volume, self.failures, xattr=options.xattr)
        # libfuse rejects all users but root and ours: the kernel knows no such option.
        self._session_options = {"allow_root"} if options.allow_root else set()
        unverified = map(os.fsdecode, self._volume.unverified_paths)
        self.notices = [str(UnverifiedHeaderWarning.of(path)) for path in unverified]
        self.notices += self._volume.warnings

    @property
    def fetcher_pid(self) -> int | None:
        return None if self._fetching is None else self._fetching.pid

    def counters(self) -> Counters:
        fetched = {} if self._fetching is None else self._fetching.counters()
        return parse(self._volume.counter_page()) | fetched

    def restart(self) -> None:
        raise MountError("the engine pyfuse3 has no worker to be replaced: mount again")

    def take_hints(self, client: int) -> None:
        self._volume.take_hints(os.dup(client))

    def fill_cache(self) -> None:
        if self._fetching is not None:
            self._fetching.fill()

    def limit_cache(self, size_bytes: int) -> None:
        self._volume.limit_cache(size_bytes)

    def warm(self, ino: int) -> None:
        self._volume.warm(ino)

    def limit_pushed(self, size_bytes: int) -> None:
        self._volume.limit_pushed(size_bytes)

    def close(self) -> None:
        self._opened.close()

    def connect(self, connection: int) -> bool:
        return False

    async def serve(self, connection: int, abort: Callable[[], None]) -> None:
        logging.getLogger("pyfuse3").addFilter(_is_no_withdrawn_request)
        # libfuse takes a ready connection as this "mount point", and closes it at the end.
        pyfuse3.init(self._operations, f"/dev/fd/{connection}", self._session_options)
        try:
            self._volume.start_prefetch(_Pusher().push)
            with _receiving_interrupted():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._operations.late.deliver)
                    nursery.start_soon(self._operations.requests.run)
                    with _aborted_is_ended():
                        await pyfuse3.main(max_tasks=TASKS_MAX)
                    nursery.cancel_scope.cancel()
        finally:
            abort()
            self._volume.stop_prefetch()
            pyfuse3.close(unmount=False)


class _Pusher:
    """Stores bytes in the kernel's page cache, ahead of the readers.

    It runs on the volume's own threads, beside the loop: notify_store() releases the GIL, and may
    wait for a page that is locked by a READ until this loop has answered it.
    """

    def __init__(self) -> None:
        self._has_failed = False

    def push(self, ino: int, offset: int, data: memoryview) -> bool:
        """Return False if the kernel refuses them: usually it does not know the inode."""
        try:
            pyfuse3.notify_store(ino, offset, data)  # type: ignore[arg-type]  # any buffer
        except OSError as error:
            if error.errno != errno.ENOENT and not self._has_failed:
                self._has_failed = True
                log.info("bytes cannot be stored ahead of their readers: %s", describe(error))
            return False
        return True


@contextlib.contextmanager
def _receiving_interrupted() -> Iterator[None]:
    """Let no receiving of a request block the loop for long.

    pyfuse3 waits until there is a request, and then receives it with a blocking read. If the
    request was withdrawn in between, because its process was killed, that read waits for the
    next request: for ever, if all processes wait for this loop. A signal ends the read (EINTR),
    and pyfuse3 goes back to its loop.
    """
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, RECEIVE_LIMIT_S, RECEIVE_LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _aborted_is_ended() -> Iterator[None]:
    """Treat an aborted connection as ended, like others.

    The kernel says ECONNABORTED instead of ENODEV if the connection ends, also by an unmount,
    while it hands over a request. pyfuse3's nursery raises groups of errors only.
    """
    try:
        yield
    except* ConnectionAbortedError:
        pass


def _is_no_withdrawn_request(record: logging.LogRecord) -> bool:
    """Drop log records of late replies, whose process was killed or whose mount is gone."""
    return "fuse_reply" not in record.msg or record.args != (os.strerror(errno.ENOENT),)


def _guarded(
    function: Callable[P, Coroutine[Any, Any, R]],
) -> Callable[P, Coroutine[Any, Any, R]]:
    """Make a handler of a function: count it, and let no exception but FUSEError out.

    The first argument is the requested inode, except for statfs. Any other exception
    that a handler lets out ends the whole mount.
    """

    @functools.wraps(function)
    async def handler(*arguments: P.args, **keywords: P.kwargs) -> R:
        operations = cast("TreeOperations", arguments[0])
        begin_ns = time.monotonic_ns()
        try:
            return await function(*arguments, **keywords)
        except FUSEError:
            raise
        except (FfrfsError, OSError) as error:
            raise operations.failure(arguments[1], error) from None
        except Exception:
            log.exception("%s%r failed", function.__name__, arguments[1:])
            raise FUSEError(errno.EIO) from None
        finally:
            elapsed_ns = time.monotonic_ns() - begin_ns
            operations.requests.note(function.__name__.strip("_"), arguments[1], elapsed_ns)

    return handler


@_guarded
async def _refuse(*_: object) -> NoReturn:
    """Refuse a change of the tree; the kernel asks only after a remount as rw."""
    raise FUSEError(errno.EROFS)


class TreeOperations(pyfuse3.Operations):
    """pyfuse3's handlers. An open file's handle is its inode number."""

    supports_dot_lookup = False  # only NFS export needs it

    def __init__(self, volume: Volume, failures: ReadFailures, *, xattr: bool) -> None:
        super().__init__()
        self._volume = volume
        self._failures = failures
        self._xattr = xattr
        self.late = LateAnswers(volume)
        self.requests = RequestLog(volume)

    # Names and attributes.

    @_guarded
    async def lookup(self, parent: int, name: bytes, _: RequestContext) -> EntryAttributes:
        part = await self.late.asked(parent, self._volume.load_directory)
        ino = part.lookup(parent, name)
        if ino:
            return _entry(part, ino)
        if len(name) > NAME_MAX:  # the kernel passes names of up to 1024 bytes
            raise FUSEError(errno.ENAMETOOLONG)
        absent = EntryAttributes()  # st_ino 0: the kernel caches that the name is missing
        absent.entry_timeout = TIMEOUT_S
        return absent

    @_guarded
    async def getattr(self, ino: int, _: RequestContext) -> EntryAttributes:
        return _entry(await self.late.asked(ino, self._volume.load_tree), ino)

    @_guarded
    async def readlink(self, ino: int, _: RequestContext) -> bytes:
        target = (await self.late.asked(ino, self._volume.load_tree)).target(ino)
        if not target:
            raise FUSEError(errno.EINVAL)  # not a symbolic link
        return target

    def forget(self, _: object) -> None:  # type: ignore[override]
        """Do nothing, without a coroutine: inode numbers are computed."""

    @_guarded
    async def statfs(self, _: RequestContext) -> StatvfsData:
        stat = StatvfsData()
        stat.f_bsize = stat.f_frsize = STATFS_BLOCK_SIZE
        stat.f_blocks = -(-self._volume.byte_count // STATFS_BLOCK_SIZE)
        stat.f_files = self._volume.inode_count
        stat.f_namemax = NAME_MAX
        return stat

    # Listings. Position 0 is ".", 1 is "..", the entries follow in the volume's order.

    @_guarded
    async def opendir(self, ino: int, _: RequestContext) -> int:
        return ino

    @_guarded
    async def readdir(self, ino: int, position: int, token: ReaddirToken) -> None:
        part = await self.late.asked(ino, self._volume.load_directory)
        if position < 1 and not readdir_reply(token, b".", _entry(part, ino), 1):
            return
        if position < 2 and not readdir_reply(token, b"..", _entry(part, part.parent(ino)), 2):
            return
        index = max(position - 2, 0)
        while entries := part.list(ino, index, LIST_COUNT):
            for name, attributes in entries:
                index += 1
                if not readdir_reply(token, name, _to_entry(attributes), index + 2):
                    return

    @_guarded
    async def releasedir(self, ino: int) -> None:
        pass

    # Bytes.

    @_guarded
    async def open(self, ino: int, flags: int, _: RequestContext) -> FileInfo:
        if flags & os.O_ACCMODE != os.O_RDONLY or flags & os.O_TRUNC:
            raise FUSEError(errno.EROFS)
        return FileInfo(fh=ino, keep_cache=True)

    @_guarded
    async def read(self, ino: int, offset: int, size: int) -> Slice:  # type: ignore[override]
        return await self.late.asked(ino, self._volume.read, offset, size)

    @_guarded
    async def release(self, ino: int) -> None:
        pass

    # For all handlers.

    def failure(self, ino: object, error: FfrfsError | OSError) -> FUSEError:
        """Return the errno for a request about `ino` that failed, and log the failure."""
        if isinstance(ino, int) and (counted := self._volume.note_failure(ino)):
            path = self._volume.path(ino).decode(errors="backslashreplace") or "/"
            log.error("cannot read %s: %s", path, describe(error))
            self._failures.note(counted, path, describe(error))
        if isinstance(error, TooLargeError):
            return FUSEError(errno.EFBIG)
        number = error.errno if isinstance(error, OSError) else None  # EAGAIN looks like no error
        return FUSEError(number if number and number != errno.EAGAIN else errno.EIO)

    # Extended attributes: without -o xattr, ENOSYS makes the kernel never ask again.

    @_guarded
    async def listxattr(self, ino: int, _: RequestContext) -> list[bytes]:
        return list(await self._xattrs(ino))

    @_guarded
    async def getxattr(self, ino: int, name: bytes, _: RequestContext) -> bytes:
        value = (await self._xattrs(ino)).get(name)
        if value is None:
            raise FUSEError(errno.ENODATA)
        return value

    async def _xattrs(self, ino: int) -> dict[bytes, bytes]:
        if not self._xattr:
            raise FUSEError(errno.ENOSYS)
        found = (await self.late.asked(ino, self._volume.load_tree)).record(ino)
        if found is None:  # a directory, or a symbolic link
            return {}
        record, crc32 = found
        shown = {b"user.ffrfs.record": b"%d" % record}
        if crc32 is not None:
            shown[b"user.ffrfs.crc32"] = b"%08x" % crc32
        return shown

    setattr = mknod = mkdir = unlink = rmdir = symlink = rename = link = _refuse  # type: ignore[assignment]
    write = create = setxattr = removexattr = _refuse  # type: ignore[assignment]


def _entry(part: TreePart, ino: int) -> EntryAttributes:
    attributes = part.attributes(ino)
    if attributes is None:
        raise FUSEError(errno.ESTALE)
    return _to_entry(attributes)


def _to_entry(attributes: Attributes) -> EntryAttributes:
    ino, mode, nlink, uid, gid, size, mtime_ns = attributes
    entry = EntryAttributes()
    entry.st_ino = ino
    entry.st_mode = mode
    entry.st_nlink = nlink
    entry.st_uid = uid
    entry.st_gid = gid
    entry.st_size = size
    entry.st_blocks = (size + BLOCK_SIZE - 1) // BLOCK_SIZE
    entry.st_atime_ns = entry.st_mtime_ns = entry.st_ctime_ns = mtime_ns
    entry.entry_timeout = entry.attr_timeout = TIMEOUT_S
    return entry
