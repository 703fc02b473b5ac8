"""Seven ways in which a program reads a part of a file, each as a function of its path.

Each returns the bytes that came, perhaps fewer than requested, or raises OSError: EFAULT if a
mapped page cannot be read (a program that touches the page gets SIGBUS).
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Way = Callable[[str, int, int], bytes]


def by_pread(path: str, offset: int, size: int) -> bytes:
    with _opened(path) as fd:
        return os.pread(fd, size, offset)


def by_preadv(path: str, offset: int, size: int) -> bytes:
    parts = [bytearray(size // 3), bytearray(size - size // 3)]
    with _opened(path) as fd:
        count = os.preadv(fd, parts, offset)
    return b"".join(parts)[:count]


def by_mmap(path: str, offset: int, size: int) -> bytes:
    begin = offset - offset % mmap.PAGESIZE
    with (
        _opened(path) as fd,
        _memory_file() as target,
        mmap.mmap(fd, offset - begin + size, prot=mmap.PROT_READ, offset=begin) as mapped,
        memoryview(mapped) as view,
        view[offset - begin :] as part,
    ):
        # The kernel touches the pages, so that there is an error instead of SIGBUS.
        return _first(target, os.pwrite(target, part, 0))


def by_sendfile(path: str, offset: int, size: int) -> bytes:
    with _opened(path) as fd, _memory_file() as target:
        return _first(target, os.sendfile(target, fd, offset, size))


def by_direct_read(path: str, offset: int, size: int) -> bytes:
    with _opened(path, os.O_DIRECT) as fd, mmap.mmap(-1, size) as memory:
        with memoryview(memory) as view:
            count = os.preadv(fd, [view], offset)
        return memory[:count]


def by_copy_file_range(path: str, offset: int, size: int) -> bytes:
    """Read as cp(1) does: by splice(2) if the kernel does not copy between file systems."""
    with _opened(path) as fd, _memory_file() as target:
        try:
            return _first(target, os.copy_file_range(fd, target, size, offset, 0))
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        with _pipe() as (reading, writing):
            return os.read(reading, os.splice(fd, writing, size, offset_src=offset) or 0)


def by_advised_read(path: str, offset: int, size: int) -> bytes:
    with _opened(path) as fd:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        os.posix_fadvise(fd, offset, size, os.POSIX_FADV_WILLNEED)
        return os.pread(fd, size, offset)


WAYS: dict[str, Way] = {
    "pread": by_pread,
    "preadv": by_preadv,
    "mmap": by_mmap,
    "sendfile": by_sendfile,
    "O_DIRECT": by_direct_read,
    "copy_file_range": by_copy_file_range,
    "fadvise": by_advised_read,
}


def drop_pages(path: str) -> None:
    """Drop the file's pages, so that the next read asks the mount."""
    with _opened(path) as fd:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def _opened(path: str, flags: int = 0) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | flags)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    try:
        yield ends
    finally:
        for fd in ends:
            os.close(fd)


@contextmanager
def _memory_file() -> Iterator[int]:
    fd = os.memfd_create("target")
    try:
        yield fd
    finally:
        os.close(fd)


def _first(fd: int, size: int) -> bytes:
    return os.pread(fd, size, 0)
