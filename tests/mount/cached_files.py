"""Reading files of a mount that should be in the kernel's page cache; for child.py.

The kernel may drop pages that nobody has touched for a while, whatever a test expects. It
tells how many (cachestat, Linux 6.5), so that a test can leave these files out.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from tests.mount.probes import digest

_CACHESTAT = 451  # the system call, on every architecture


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("size", ctypes.c_uint64))  # size 0: to the end


class _Statistics(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("cached", "dirty", "writeback", "evicted", "evicted_recently")
    )


def _statistics(path: str) -> _Statistics | None:
    """Return None if the kernel does not answer cachestat."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = _Statistics()
    fd = os.open(path, os.O_RDONLY)
    try:
        status = libc.syscall(_CACHESTAT, fd, ctypes.byref(_Range()), ctypes.byref(found), 0)
    finally:
        os.close(fd)
    return found if status == 0 else None


def given_up_pages(path: str) -> int:
    """Return how many pages of the file the kernel had cached and has dropped."""
    found = _statistics(path)
    return 0 if found is None else int(found.evicted)


def drop(folder: str, names: list[str]) -> None:
    """Let the kernel drop all pages of these files."""
    for name in names:
        fd = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def given_up_and_act(
    root: str, names: list[str], act: Callable[..., Any], *arguments: Any
) -> tuple[list[str], Any]:
    """Return the files and directories with dropped pages, and then the result of `act`.

    Both in one step, as the kernel may drop pages at any time (DAMON does on an idle machine).
    """
    names = [name for name in names if given_up_pages(os.path.join(root, name)) > 0]
    return names, act(root, *arguments)


def pages_had(folder: str, names: list[str]) -> dict[str, int]:
    """Return how many pages of each file the kernel has cached, or had cached and has dropped."""
    found = {name: _statistics(os.path.join(folder, name)) for name in names}
    return {
        name: int(page_counts.cached + page_counts.evicted)
        for name, page_counts in found.items()
        if page_counts is not None
    }


def misread_and_given_up(
    folder: str, digests: dict[str, str], names: list[str]
) -> tuple[list[str], dict[str, int]]:
    """Return probes.misread(), and how many pages each file had lost just before its read."""
    misread = []
    given_up = {}
    for name in names:
        path = os.path.join(folder, name)
        if page_count := given_up_pages(path):
            given_up[name] = page_count
        if digest(path) != digests[name]:
            misread.append(name)
    return misread, given_up


def read_and_given_up(path: str) -> tuple[int, str, int]:
    """Return the errno or 0, the digest or "", and how many pages were dropped before the read.

    The file is read only once, as the kernel may drop more of its pages before a second read.
    """
    page_count = given_up_pages(path)
    try:
        return 0, digest(path), page_count
    except OSError as error:
        return error.errno or -1, "", page_count
