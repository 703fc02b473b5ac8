"""Asks a mounted tree everything that a program can ask, to compare the answers of mounts.

Runs in a child (child.py). An answer is a value that can be compared; an error is
("errno", number). Only the device number is left out, as it may differ between two mounts
of one pack.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import random
import select
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tests.mount import probes

Answer = tuple[str, object]  # question, answer

_libc = ctypes.CDLL(None, use_errno=True)
_SYS_GETDENTS64 = 217 if os.uname().machine == "x86_64" else 61
_DIRENT = struct.Struct("<QqHB")
_FILE_HANDLE_SIZE_MAX = 128
_FS_IOC_GETFLAGS = 0x80086601
_BLOCK_SIZE_OF = 2  # FIGETBSZ
_READS_PER_FILE = 12
_FILES_OF_SIZE = 2  # files of each size in a folder that get all questions; the others a stat
_DIRECT = os.O_RDONLY | os.O_DIRECT

ODD_NAMES: list[bytes] = [
    *(b"absent", b"", b".", b"..", b"./", b"../", b"...", b" ", b"absent/", b"absent/deeper"),
    *(b"\xff", b"\xff\xfe", b"a\nb", b"\x01", b"*", b"a" * 254, b"a" * 255, b"a" * 256),
    *(b"a" * 1024, b"a" * 1025, b"a" * 4096, b"a/" * 2100, b"\xc3\xbc" * 128),
    *(b"a" * 255 + b"/x", b"a" * 256 + b"/x"),
]
OPEN_FLAGS = {
    "O_RDONLY": os.O_RDONLY,
    "O_WRONLY": os.O_WRONLY,
    "O_RDWR": os.O_RDWR,
    "3": 3,  # neither for reading nor for writing: for ioctl() alone
    "O_TRUNC": os.O_RDONLY | os.O_TRUNC,
    "O_WRONLY|O_TRUNC": os.O_WRONLY | os.O_TRUNC,
    "O_APPEND": os.O_WRONLY | os.O_APPEND,
    "O_CREAT": os.O_RDONLY | os.O_CREAT,
    "O_CREAT|O_EXCL": os.O_RDONLY | os.O_CREAT | os.O_EXCL,
    "O_DIRECTORY": os.O_RDONLY | os.O_DIRECTORY,
    "O_NOFOLLOW": os.O_RDONLY | os.O_NOFOLLOW,
    "O_PATH": os.O_PATH,
    "O_DIRECT": _DIRECT,
    "O_NOATIME": os.O_RDONLY | os.O_NOATIME,
    "O_NONBLOCK": os.O_RDONLY | os.O_NONBLOCK,
    "O_SYNC": os.O_RDONLY | os.O_SYNC,
    "O_TMPFILE": os.O_RDWR | os.O_TMPFILE,
}
# The acts of probes.errno_of that would change something.
CHANGES = [
    *("create", "mkdir", "rmdir", "unlink", "link", "symlink", "mknod", "chmod", "chown"),
    *("utime", "truncate", "setxattr", "removexattr"),
]
ACTS = ["read a byte", "readlink", "list", "getxattr", "getxattr of another name", "listxattr"]


def differences(roots: list[str], seed: int) -> tuple[int, list[tuple[str, object, object]]]:
    """Return how many questions each mount got, and the answers unlike the first mount's."""
    count = 0
    found = []
    surveys = (survey(os.fsencode(root), random.Random(seed)) for root in roots)
    for first, *others in zip(*surveys, strict=True):
        count += 1
        unlike = [other for other in others if other != first]
        # The questions differ only after an answer that differs.
        found += [(f"{first[0]} / {other[0]}", first[1], other[1]) for other in unlike]
        if any(other[0] != first[0] for other in unlike):
            break
    return count, found[:20]


def survey(root: bytes, order: random.Random) -> Iterator[Answer]:
    """Ask folder by folder from the top; `order` chooses the questions, not the answers."""
    yield "statvfs", answer(lambda: _statvfs(root))
    yield from _folder(root, b"", order)


def answer(act: Callable[[], Any]) -> object:
    try:
        return act()
    except OSError as error:
        return "errno", error.errno
    except ValueError as error:  # Python itself refuses, such as a name with NUL
        return "refused", str(error)


def _folder(root: bytes, name: bytes, order: random.Random) -> Iterator[Answer]:
    path = os.path.join(root, name)
    buffer_size = order.choice([300, 1024, 4096, 32768, 1 << 20])
    first = answer(lambda: _listing(path, buffer_size))
    yield f"list {name!r} by {buffer_size}", first
    yield f"list {name!r} again", answer(lambda: _listing(path, 32768))
    for offset in (0, 1, 2, 3, 4, order.randrange(50), 1000, 1 << 40, -1):
        yield f"list {name!r} from {offset}", answer(lambda o=offset: _listing(path, 4096, o))
    yield from _entry(path, name, order)
    for odd in ODD_NAMES:
        place = path + b"/" + odd
        yield f"stat {name!r}/{odd[:20]!r}", answer(lambda p=place: _stat(p))
        yield f"open {name!r}/{odd[:20]!r}", answer(lambda p=place: _opened(p, os.O_RDONLY))
    for change in ("create", "mkdir", "symlink", "mknod"):
        yield f"{change} in {name!r}", _tried(path + b"/new", change)
    if not isinstance(first, list):
        return
    inners = [os.path.join(name, entry) for entry, *_ in first if entry not in (b".", b"..")]
    of_size: Counter[int] = Counter()
    for inner in order.sample(inners, len(inners)):
        place = os.path.join(root, inner)
        if os.path.isdir(place):
            yield from _folder(root, inner, order)
            continue
        size = os.lstat(place).st_size
        of_size[size] += 1
        if of_size[size] <= _FILES_OF_SIZE:
            yield from _entry(place, inner, order)
            yield from _file(place, inner, order)
        else:
            yield f"stat {inner!r}", answer(lambda p=place: _stat(p))


def _entry(path: bytes, name: bytes, order: random.Random) -> Iterator[Answer]:
    """Ask the questions that fit both files and folders."""
    yield f"stat {name!r}", answer(lambda: _stat(path))
    for mode in (os.F_OK, os.R_OK, os.W_OK, os.X_OK, os.R_OK | os.X_OK):
        yield f"access {mode} {name!r}", answer(lambda m=mode: os.access(path, m))
    for word, flags in OPEN_FLAGS.items():
        yield f"open {word} {name!r}", answer(lambda f=flags: _opened(path, f))
    for act in (*ACTS, *order.sample(CHANGES, len(CHANGES))):
        further = [path + b"x"] if act == "link" else []
        if name or act not in ("rmdir", "unlink"):  # on a mount point they may give EBUSY, or not
            yield f"{act} {name!r}", _tried(path, act, *further)
    yield f"rename {name!r}", answer(lambda: os.rename(path, path + b"x"))
    for xattr in (b"user.ffrfs.record", b"user.ffrfs.crc32", b"user.other", b"security.selinux"):
        for size in (0, 1, 7, 8, 64):
            yield (
                f"getxattr {xattr!r} {size} {name!r}",
                answer(lambda x=xattr, s=size: _getxattr(path, x, s)),
            )
    for size in (0, 1, 64):
        yield f"listxattr {size} {name!r}", answer(lambda s=size: _listxattr(path, s))
    yield f"handle {name!r}", answer(lambda: _handle(path))
    yield f"path below {name!r}", answer(lambda: _stat(path + b"/."))
    yield f"slash after {name!r}", answer(lambda: _stat(path + b"/"))


def _file(path: bytes, name: bytes, order: random.Random) -> Iterator[Answer]:
    size = os.lstat(path).st_size
    edges = [0, 1, 511, 512, 4095, 4096, 4097, 131071, 131072, 131073, size // 2]
    edges += [max(0, size - 1), size, size + 1, size + 4096, 1 << 40, (1 << 63) - 1, -1]
    for _ in range(_READS_PER_FILE):
        offset = order.choice([order.choice(edges), order.randrange(size + 2)])
        count = order.choice([0, 1, 100, 4096, 65537, 131072, 1 << 20, size + 1])
        flags = order.choice([os.O_RDONLY, _DIRECT])
        question = f"read {flags:o} {count} at {offset} of {name!r}"
        yield question, answer(lambda f=flags, c=count, o=offset: _read(path, f, c, o))
    for flags in (os.O_RDONLY, _DIRECT):
        yield f"read all {flags:o} {name!r}", answer(lambda f=flags: _read(path, f, size + 1, 0))
    for offset in (0, 1, size // 2, size - 1, size, size + 1, -1):
        for whence in (os.SEEK_DATA, os.SEEK_HOLE, os.SEEK_END):
            question = f"seek {offset} {whence} {name!r}"
            yield question, answer(lambda o=offset, w=whence: _with(path, os.lseek, o, w))
    for word, act in _FILE_ACTS.items():
        yield f"{word} {name!r}", answer(lambda a=act: _with(path, a))
    yield f"run {name!r}", answer(lambda: os.waitpid(os.posix_spawn(path, [path], {}), 0)[1])


_FILE_ACTS: dict[str, Callable[[int], object]] = {
    "fsync": os.fsync,
    "fdatasync": os.fdatasync,
    "ftruncate": lambda fd: os.ftruncate(fd, 0),
    "write": lambda fd: os.write(fd, b"x"),
    "fallocate": lambda fd: os.posix_fallocate(fd, 0, 1),
    "fchmod": lambda fd: os.fchmod(fd, 0o777),
    "lock shared": lambda fd: fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB),
    "lock": lambda fd: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB),
    "record lock": lambda fd: fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB),
    "lease": lambda fd: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK),
    "flags": lambda fd: fcntl.ioctl(fd, _FS_IOC_GETFLAGS, bytes(8)),
    "block size": lambda fd: fcntl.ioctl(fd, _BLOCK_SIZE_OF, bytes(4)),
    "poll": lambda fd: select.select([fd], [fd], [fd], 0) == ([fd], [fd], []),
    "map shared": lambda fd: mmap.mmap(fd, 1, mmap.MAP_SHARED, mmap.PROT_READ).close(),
    "map for writing": lambda fd: mmap.mmap(fd, 1, mmap.MAP_SHARED, mmap.PROT_WRITE).close(),
    "advise": lambda fd: os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED),
    "list": os.listdir,
    "copy": lambda fd: os.copy_file_range(fd, fd, 1, 0, 100),
}


def _statvfs(path: bytes) -> list[object]:
    found = os.statvfs(path)
    names = [name for name in dir(found) if name.startswith("f_") and name != "f_fsid"]
    return [(name, getattr(found, name)) for name in names]


def _stat(path: bytes) -> list[object]:
    found = os.lstat(path)
    names = [name for name in dir(found) if name.startswith("st_") and name != "st_dev"]
    return [(name, getattr(found, name)) for name in names]


def _listing(path: bytes, buffer_size: int, offset: int = 0) -> list[tuple[bytes, int, int, int]]:
    """(name, inode, position of the next, type) of each entry, as getdents64(2) has them."""
    buffer = ctypes.create_string_buffer(buffer_size)
    found = []
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if offset:
            os.lseek(fd, offset, os.SEEK_SET)
        while size := _checked(_libc.syscall(_SYS_GETDENTS64, fd, buffer, buffer_size)):
            data, position = buffer.raw[:size], 0
            while position < size:
                ino, following, length, kind = _DIRENT.unpack_from(data, position)
                name = data[position + _DIRENT.size : position + length].partition(b"\0")[0]
                found.append((name, ino, following, kind))
                position += length
    finally:
        os.close(fd)
    return found


def _opened(path: bytes, flags: int) -> int:
    fd = os.open(path, flags, 0o644)
    try:
        return fcntl.fcntl(fd, fcntl.F_GETFL)
    finally:
        os.close(fd)


def _with(path: bytes, act: Callable[..., Any], *arguments: Any) -> Any:
    fd = os.open(path, os.O_RDONLY)
    try:
        return act(fd, *arguments)
    finally:
        os.close(fd)


def _read(path: bytes, flags: int, count: int, offset: int) -> tuple[int, bytes]:
    fd = os.open(path, flags)
    memory = mmap.mmap(-1, max(1, count))  # at a page boundary, as O_DIRECT may want it
    try:
        view = memoryview(memory)[:count]
        size = os.preadv(fd, [view], offset)
        return size, bytes(view[:size])
    finally:
        os.close(fd)


def _tried(path: bytes, act: str, *arguments: bytes) -> object:
    return "errno", probes.errno_of(path, act, *arguments)  # type: ignore[arg-type]


def _getxattr(path: bytes, name: bytes, size: int) -> tuple[int, bytes]:
    buffer = ctypes.create_string_buffer(size + 1)
    length = _checked(_libc.lgetxattr(path, name, buffer, ctypes.c_size_t(size)))
    return length, buffer.raw[: length if size else 0]


def _listxattr(path: bytes, size: int) -> tuple[int, bytes]:
    buffer = ctypes.create_string_buffer(size + 1)
    length = _checked(_libc.llistxattr(path, buffer, ctypes.c_size_t(size)))
    return length, buffer.raw[: length if size else 0]


def _handle(path: bytes) -> tuple[int, bytes, object]:
    """Return a handle as for NFS: (type, bytes), and inode and size of the entry opened by it."""
    handle = ctypes.create_string_buffer(8 + _FILE_HANDLE_SIZE_MAX)
    struct.pack_into("<Ii", handle, 0, _FILE_HANDLE_SIZE_MAX, 0)
    mount_id = ctypes.c_int()
    at_cwd = -100
    _checked(_libc.name_to_handle_at(at_cwd, path, handle, ctypes.byref(mount_id), 0))
    size, kind = struct.unpack_from("<Ii", handle.raw)

    def reopened() -> list[object]:
        mount = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            fd = _checked(_libc.open_by_handle_at(mount, handle, os.O_RDONLY))
        finally:
            os.close(mount)
        try:
            return [os.fstat(fd).st_ino, os.fstat(fd).st_size]
        finally:
            os.close(fd)

    return kind, handle.raw[8 : 8 + size], answer(reopened) if os.geteuid() == 0 else None


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number or errno.EIO, os.strerror(number))
    return result
