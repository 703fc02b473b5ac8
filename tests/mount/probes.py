"""Functions that child processes (child.py) run in a mount; no asserts here."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import mmap
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

CHUNK_SIZE = 1 << 20
_REST_MAX_S = 0.005


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def read_all_in(root: str, names: list[str]) -> list[bytes]:
    return [read(os.path.join(root, name)) for name in names]


def read_all_on_cpu_in(root: str, cpu: int, names: list[str]) -> list[bytes]:
    os.sched_setaffinity(0, {cpu})
    return read_all_in(root, names)


def read_all_by_descriptor_in(root: str, names: list[str]) -> list[bytes]:
    """Read as a C program does; Python's open() also asks whether the file is a terminal."""
    found = []
    for name in names:
        file = os.open(f"{root}/{name}", os.O_RDONLY)
        found.append(os.read(file, os.fstat(file).st_size))
        os.close(file)
    return found


def read_ranges(path: str, ranges: list[tuple[int, int]]) -> list[bytes]:
    """One pread per (offset, size)."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return [os.pread(fd, size, offset) for offset, size in ranges]
    finally:
        os.close(fd)


def take_turns_beside_a_reader(pack: str, record: int, turns: int) -> Iterator[bytes | None]:
    """Yield None after so many turns beside FileReader's thread; then the bytes it read."""
    from ffrfs import FileReader

    reader = FileReader(pack)
    results: list[bytes] = []
    thread = threading.Thread(target=lambda: results.append(reader.read_one(record).tobytes()))
    thread.start()
    for _ in range(turns):
        time.sleep(0.01)
    yield None
    thread.join()
    yield results[0]


def read_mapped(path: str) -> bytes:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
        return bytes(memory)


def read_direct(path: str) -> bytes:
    """Read with O_DIRECT, in large pieces at page boundaries."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        memory = mmap.mmap(-1, CHUNK_SIZE)
        data = b""
        while count := os.preadv(fd, [memory], len(data)):
            data += memory[:count]
        return data
    finally:
        os.close(fd)


def read_late(path: str, offset: int) -> Iterator[bytes | int]:
    """Yield the first byte; at the next call the one at `offset`, or the errno."""
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # no readahead
        yield file.read(1)
        try:
            yield os.pread(file.fileno(), 1, offset)
        except OSError as error:
            yield error.errno or -1


def send(path: str, target: str) -> None:
    with open(path, "rb") as file, open(target, "wb") as copy:
        while os.sendfile(copy.fileno(), file.fileno(), None, CHUNK_SIZE):
            pass


def contents(root: str) -> dict[str, bytes | None]:
    """The bytes of each file by path, None for each folder."""
    found: dict[str, bytes | None] = {}
    for folder, folders, files in os.walk(root, onerror=_raise):
        for name in folders:
            found[os.path.relpath(os.path.join(folder, name), root)] = None
        for name in files:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, root)] = read(path)
    return found


def _raise(error: OSError) -> None:
    raise error


def digests(root: str) -> dict[str, str | None]:
    """SHA-256 of each file by path, None for each folder."""
    found: dict[str, str | None] = {}
    for folder, folders, files in os.walk(root):
        for name in folders:
            found[os.path.relpath(os.path.join(folder, name), root)] = None
        for name in files:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, root)] = digest(path)
    return found


def digests_shuffled(folder: str, seed: int) -> dict[str, str]:
    """SHA-256 of each file by name, read in a random order."""
    names = os.listdir(folder)
    random.Random(seed).shuffle(names)
    return {name: digest(os.path.join(folder, name)) for name in names}


def digest(path: str) -> str:
    sha256 = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(CHUNK_SIZE):
            sha256.update(chunk)
    return sha256.hexdigest()


def readable(folder: str) -> list[str]:
    """Return the files in it that can be read, tried in byte order."""
    found = []
    for name in sorted(os.listdir(folder)):
        with contextlib.suppress(OSError):
            read(os.path.join(folder, name))
            found.append(name)
    return found


def misread(folder: str, digests: dict[str, str], names: list[str]) -> list[str]:
    """Return the files, read in this order, that have a wrong SHA-256."""
    return [name for name in names if digest(os.path.join(folder, name)) != digests[name]]


def misread_in_batches(
    folder: str, digests: dict[str, str], names: list[str], count: int
) -> Iterator[list[str]]:
    """Yield the same for the next `count` files each time."""
    for begin in range(0, len(names), count):
        yield misread(folder, digests, names[begin : begin + count])


def stat(path: str) -> os.stat_result:
    return os.lstat(path)


def statvfs(path: str) -> os.statvfs_result:
    return os.statvfs(path)


def wander(root: str, names: list[str], seed: int) -> Iterator[list[str]]:
    """Read, look up and list at random, for a moment each time; yield the wrong answers.

    `names` are files whose content is their name; a name with a suffix does not exist.
    """
    chance = random.Random(seed)
    while True:
        wrong = []
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            path = os.path.join(root, chance.choice(names))
            with contextlib.suppress(OSError):
                if read(path).decode() != os.path.basename(path):
                    wrong.append(path)
            with contextlib.suppress(OSError):
                os.stat(f"{path}-{chance.random()}")  # a name that the kernel has not looked up yet
                wrong.append(f"{path}-")
            with contextlib.suppress(OSError):
                if os.path.basename(path) not in os.listdir(os.path.dirname(path)):
                    wrong.append(os.path.dirname(path))
        yield wrong


def listdir(path: str) -> list[str]:
    return os.listdir(path)


def inodes(root: str) -> dict[str, int]:
    """Return the inode number of each file and folder, by path."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, root)] = os.lstat(path).st_ino
    return found


def inodes_in(root: str, folders: list[str]) -> dict[str, dict[str, int]]:
    """Return the same for each of `folders`, by folder."""
    return {folder: inodes(os.path.join(root, folder)) for folder in folders}


def scan(path: str) -> list[tuple[str, bool, int, int]]:
    """(name, is a folder, inode of the listing, inode of stat) of each entry."""
    with os.scandir(path) as entries:
        return [(e.name, e.is_dir(), e.inode(), e.stat().st_ino) for e in entries]


def sizes(path: str) -> dict[str, int]:
    return {name: os.lstat(os.path.join(path, name)).st_size for name in os.listdir(path)}


def touch(root: str, files: list[str], folders: list[str]) -> dict[str, list[object]]:
    """Return what reading and listing these gives; make all other kinds of requests, too."""
    found: dict[str, list[object]] = {"contents": [], "listings": []}
    for name in files:
        path = os.path.join(root, name)
        os.stat(path)
        os.access(path, os.R_OK)
        with open(path, "rb") as file:
            os.fstat(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
            file.seek(0, os.SEEK_END)
            file.seek(0)
            data = file.read()
        if data != read_mapped(path):
            raise ValueError(path)
        found["contents"].append(data)
        for act in ("getxattr", "listxattr", "readlink", "stat", "list", "chmod"):
            errno_of(path, act)
    for name in folders:
        path = os.path.join(root, name)
        os.stat(path)
        found["listings"].append(sorted(os.listdir(path)))
        with os.scandir(path) as entries:
            for entry in entries:
                entry.stat()
        for absent in ("absent", "n" * 255, ".git", "__init__.py"):
            errno_of(os.path.join(path, absent), "stat")
            errno_of(os.path.join(path, absent), "read")
    return found


def getxattr(path: str, name: str) -> bytes:
    return os.getxattr(path, name)


def own_xattrs(path: str) -> list[str]:
    """Return the names for a link itself, if it is one."""
    return os.listxattr(path, follow_symlinks=False)


def readlink(path: str) -> str:
    return os.readlink(path)


def listxattr(path: str) -> list[str]:
    return os.listxattr(path)


def errno_of(path: str, act: str, *arguments: str) -> int:
    """The errno of one act of _ACTS on `path`; 0 if it succeeded."""
    try:
        _ACTS[act](path, *arguments)
    except OSError as error:
        return error.errno or -1
    return 0


def errnos_of(root: str, paths: list[str], act: str) -> dict[str, int]:
    """Return the same for each of `paths`, by path."""
    return {path: errno_of(os.path.join(root, path), act) for path in paths}


def hold_open(path: str) -> Iterator[bytes]:
    """Open the file and read a byte; read the rest at the next call."""
    with open(path, "rb") as file:
        yield file.read(1)
        # The mount may have read the rest ahead, and put it into the page cache.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        yield file.read()


def kill_in_lookups(folder: str) -> Iterator[None]:
    """Let processes look up names that do not exist, and kill them meanwhile."""
    serial = 0
    while True:
        yield
        process_ids = []
        for _ in range(3):
            serial += 1
            process_id = os.fork()
            if process_id == 0:
                while True:
                    serial += 1000
                    with contextlib.suppress(OSError):
                        os.stat(os.path.join(folder, f"absent{serial}"))
            process_ids.append(process_id)
        time.sleep(random.random() / 100)
        for process_id in process_ids:
            os.kill(process_id, signal.SIGKILL)
        for process_id in process_ids:
            os.waitpid(process_id, 0)


def work_inside(path: str) -> Iterator[str]:
    os.chdir(path)
    yield os.getcwd()


def read_directly_until_it_fails(
    folder: str, contents: dict[str, bytes], seed: int
) -> Iterator[object]:
    """Read with O_DIRECT, so that each read is a request; yield "going", then the errno."""
    yield "going"
    try:
        _read_directly(folder, contents, seed)
    except OSError as error:
        yield error.errno


def _read_directly(folder: str, contents: dict[str, bytes], seed: int) -> NoReturn:
    """Read file after file, each by one request. Raises OSError, or ValueError on a wrong byte.

    It pauses between them, so that processes that replace a daemon or a worker get the CPU.
    """
    order = random.Random(seed)
    memory = mmap.mmap(-1, CHUNK_SIZE)
    while True:
        name = order.choice(list(contents))
        fd = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_DIRECT)
        try:
            size = os.preadv(fd, [memory], 0)
        finally:
            os.close(fd)
        time.sleep(order.random() * _REST_MAX_S)
        if memory[:size] != contents[name]:
            raise ValueError(f"wrong bytes in {name}")


def read_directly_in_turn(folder: str, contents: dict[str, bytes]) -> Iterator[list[str]]:
    """Read all with O_DIRECT each time; yield the names of those misread."""
    while True:
        yield [
            name
            for name, content in contents.items()
            if read_direct(os.path.join(folder, name)) != content
        ]


def read_open_files(folder: str, contents: dict[str, bytes], seed: int) -> Iterator[object]:
    """Read by path until the paths are gone, then go on with files that are open."""
    fds = {name: os.open(os.path.join(folder, name), os.O_RDONLY) for name in contents}
    yield "going"
    with contextlib.suppress(FileNotFoundError):
        _read_directly(folder, contents, seed)
    yield "paths are gone"
    right = [name for name, fd in fds.items() if os.pread(fd, CHUNK_SIZE, 0) == contents[name]]
    yield len(right)


class DirectoryStream:
    """opendir(3) and friends, which os.scandir does not offer."""

    class _Dirent(ctypes.Structure):
        _fields_ = (
            ("ino", ctypes.c_uint64),
            ("offset", ctypes.c_int64),
            ("length", ctypes.c_uint16),
            ("type", ctypes.c_uint8),
            ("name", ctypes.c_char * 256),
        )

    def __init__(self, path: str) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.opendir.restype = ctypes.c_void_p
        self._libc.readdir.restype = ctypes.POINTER(self._Dirent)
        self._libc.telldir.restype = ctypes.c_long
        directory = self._libc.opendir(os.fsencode(path))
        if not directory:
            raise OSError(ctypes.get_errno(), "opendir", path)
        self._directory = ctypes.c_void_p(directory)

    def entries(self, limit: int = 1 << 30) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        while len(found) < limit and (entry := self._libc.readdir(self._directory)):
            found.append((os.fsdecode(entry.contents.name), entry.contents.ino))
        return found

    def names(self, limit: int = 1 << 30) -> list[str]:
        return [name for name, _ in self.entries(limit)]

    def tell(self) -> int:
        return int(self._libc.telldir(self._directory))

    def seek(self, position: int) -> None:
        self._libc.seekdir(self._directory, ctypes.c_long(position))

    def rewind(self) -> None:
        self._libc.rewinddir(self._directory)

    def __del__(self) -> None:
        if directory := getattr(self, "_directory", None):
            self._libc.closedir(directory)


def seek_in_listing(path: str, counts: list[int]) -> list[tuple[list[str], list[str]]]:
    """Return, for each count, the names after that many entries: read on, and after seekdir."""
    stream = DirectoryStream(path)
    pairs = []
    for count in counts:
        stream.rewind()
        stream.names(count)
        position = stream.tell()
        straight = stream.names(50)
        stream.names()
        stream.seek(position)
        pairs.append((straight, stream.names(50)))
    return pairs


def inodes_of_listing(path: str) -> dict[str, int]:
    """Return the inodes by name, as readdir(3) gives them, with "." and ".."."""
    return dict(DirectoryStream(path).entries())


def list_twice(path: str) -> tuple[list[str], list[str]]:
    """All names with "." and "..", and again after rewinddir."""
    stream = DirectoryStream(path)
    first = stream.names()
    stream.rewind()
    return first, stream.names()


def hint(mountpoint: str, hints: list[bytes]) -> Iterator[str]:
    """Send these; at the next call close without another message."""
    from ffrfs.mount.client.hint_stream import HintStream

    stream = HintStream(mountpoint)
    stream.send(hints)
    yield "hinted"
    stream.close()


def hint_all(mountpoint: str, hints: list[bytes]) -> None:
    from ffrfs.mount.client.hint_stream import HintStream

    stream = HintStream(mountpoint)
    stream.send(hints)
    stream.finish()
    stream.close()


def unmount_within(path: str, timeout_s: float) -> str | None:
    from ffrfs.mount.client.unmount import unmount

    return unmount(path, timeout_s=timeout_s).notice


def serve_badly(pack: str, mountpoint: str, serving: str) -> Iterator[tuple[str, str]]:
    """Run a daemon here whose engine "ends", "fails" or "hangs"; yield its exception."""
    import trio

    from ffrfs.mount.config.request import MountRequest
    from ffrfs.mount.daemon import daemon, server
    from ffrfs.mount.kernel.options import TreeOptions

    class Engine:
        name = "bad"
        notices: list[str] = []  # noqa: RUF012
        worker_pid = deaths = None
        may_use_rings = False
        fetcher_pid = None

        def counters(self) -> dict[str, list[int]]:
            return {}

        def close(self) -> None:
            pass

        def limit_cache(self, size_bytes: int) -> None:  # called when memory is short
            pass

        def limit_pushed(self, size_bytes: int) -> None:
            pass

        def connect(self, connection: int) -> bool:
            return False

        async def serve(self, connection: int, abort: object) -> None:
            try:
                if serving == "fails":
                    raise RuntimeError("out of order")
                if serving == "hangs":
                    await trio.sleep_forever()
            finally:
                os.close(connection)

    daemon.open_engine = lambda *_: Engine()  # type: ignore[assignment]
    server.READY_TIMEOUT_S = 1.0
    request = MountRequest(packs=(pack,), mountpoint=mountpoint, options=TreeOptions())
    try:
        daemon.serve(request, lambda _: None)
    except Exception as error:
        yield type(error).__name__, str(error)


def load_image(path: str) -> tuple[object, object]:
    """Return the image as OpenCV sees it (BGR), and as PIL does (RGB)."""
    import cv2
    import numpy as np
    from PIL import Image

    with Image.open(path) as image:
        return cv2.imread(path), np.asarray(image.convert("RGB"))


def load_array(path: str) -> tuple[object, object]:
    """Return the array by np.load, once read whole and once mapped."""
    import numpy as np

    return np.load(path), np.array(np.load(path, mmap_mode="r"))


def _write(path: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, b"x")
        os.fsync(fd)
    finally:
        os.close(fd)


def _fallocate(path: str) -> None:
    """Make the system call itself: posix_fallocate() would try writes in its place."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(path, os.O_WRONLY)
    try:
        if libc.fallocate(fd, 0, ctypes.c_long(0), ctypes.c_long(CHUNK_SIZE)) != 0:
            raise OSError(ctypes.get_errno(), "fallocate", path)
    finally:
        os.close(fd)


def _open(flags: int) -> Callable[[str], None]:
    return lambda path: os.close(os.open(path, flags, 0o644))


_ACTS: dict[str, Callable[..., object]] = {
    "open": _open(os.O_RDONLY),
    "open for writing": _open(os.O_WRONLY),
    "open for reading and writing": _open(os.O_RDWR),
    "open and truncate": _open(os.O_WRONLY | os.O_TRUNC),
    "open for reading and truncate": _open(os.O_RDONLY | os.O_TRUNC),
    "append": _open(os.O_WRONLY | os.O_APPEND),
    "write": _write,
    "create without a name": _open(os.O_WRONLY | os.O_TMPFILE),
    "fallocate": _fallocate,
    "create": _open(os.O_WRONLY | os.O_CREAT | os.O_EXCL),
    "mkdir": os.mkdir,
    "rmdir": os.rmdir,
    "unlink": os.unlink,
    "rename": os.rename,
    "link": os.link,
    "symlink": lambda path: os.symlink("target", path),
    "mknod": lambda path: os.mknod(path, 0o644),
    "chmod": lambda path: os.chmod(path, 0o777),
    "chown": lambda path: os.chown(path, 12, 12),
    "utime": os.utime,
    "truncate": lambda path: os.truncate(path, 0),
    "setxattr": lambda path: os.setxattr(path, "user.ffrfs.record", b"1"),
    "removexattr": lambda path: os.removexattr(path, "user.ffrfs.record"),
    "read": read,
    "read a byte": lambda path: read_ranges(path, [(0, 1)]),
    "readlink": os.readlink,
    "list": os.listdir,
    "stat": os.lstat,
    "getxattr": lambda path: os.getxattr(path, "user.ffrfs.record"),
    "getxattr of another name": lambda path: os.getxattr(path, "user.other"),
    "listxattr": os.listxattr,
}
