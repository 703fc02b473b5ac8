"""A child's questions to packs whose index may lie, through Python and through a mount.

Each answer is checked here: it must be an error in one line that names the pack, or the bytes
of a record. Anything else is returned as a fault, in words.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ffrfs import PackedFolder
from ffrfs.errors import FfrfsError, PathNotFoundError
from ffrfs.folder.extract import extract_tree
from ffrfs.folder.info import pack_info
from ffrfs.folder.tree import PackTree
from ffrfs.folder.verify import verify_packs

_ENTRIES_MAX = 5000
_SLOW_S = 10.0  # on a busy machine; a sound pack takes milliseconds
_ERROR_SIZE_MAX = 1000

Answers = dict[str, object]


class Asked(NamedTuple):
    answers: Answers
    faults: list[str]


def ask_python(packs: list[tuple[str, set[bytes]]], out: str) -> Iterator[list[str]]:
    """Yield the faults of everything that reads packs, for each pack and its records."""
    warnings.simplefilter("ignore")
    for pack, records in packs:
        yield _Reader(pack, records, out).faults()


class _Reader:
    def __init__(self, pack: str, records: set[bytes], out: str) -> None:
        self._pack, self._records, self._out = pack, records, out
        self._faults: list[str] = []

    def faults(self) -> list[str]:
        for act in (self._read, self._extract, self._info, self._verify):
            began_s = time.monotonic()
            self._asked(act)
            if time.monotonic() - began_s > _SLOW_S:
                self._faults.append(f"{act.__name__}: took {time.monotonic() - began_s:.1f} s")
        return self._faults

    def _asked(self, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except (FfrfsError, OSError) as error:
            # The error of a path that was listed, and is damaged, may name only the path.
            names_it = self._pack in str(error) or isinstance(error, PathNotFoundError)
            if not names_it or "\n" in str(error) or len(str(error)) > _ERROR_SIZE_MAX:
                self._faults.append(f"{act}: not one line that names the pack: {error!r}")
            return None

    def _read(self) -> None:
        with PackedFolder(self._pack) as folder:
            paths = self._asked(lambda: folder.list(recursive=True)) or []
            if len(paths) > _ENTRIES_MAX:
                self._faults.append("the tree has no end")
            for path in paths[:_ENTRIES_MAX]:
                if self._asked(lambda p=path: folder.is_file(p)):
                    for read in (folder.read_one, folder.__getitem__, _open_and_read(folder)):
                        data = self._asked(lambda p=path, read=read: bytes(read(p)))
                        if data is not None and data not in self._records:
                            self._faults.append(f"{path!r}: bytes of no record")
            for names in (
                lambda: len(list(folder)),
                lambda: len(list(folder.glob("**"))),
                folder.__len__,
            ):
                if (self._asked(names) or 0) > _ENTRIES_MAX:
                    self._faults.append("the tree has no end")

    def _extract(self) -> None:
        shutil.rmtree(self._out, ignore_errors=True)
        with PackTree(self._pack) as tree:
            extract_tree(tree, self._out)
        for folder, folders, names in os.walk(self._out):
            for path in (os.path.join(folder, name) for name in folders + names):
                found = os.lstat(path)
                if not (
                    stat.S_ISREG(found.st_mode)
                    or stat.S_ISDIR(found.st_mode)
                    or os.path.islink(path)
                ):
                    self._faults.append(f"{path!r}: was made of another type")
                if stat.S_ISREG(found.st_mode) and _content(path) not in self._records:
                    self._faults.append(f"{path!r}: extracted bytes of no record")

    def _info(self) -> None:
        pack_info(self._pack)

    def _verify(self) -> None:
        verify_packs([self._pack])


def _open_and_read(folder: PackedFolder) -> Callable[[str], bytes]:
    def read(path: str) -> bytes:
        with folder.open(path) as file:
            return file.read(1) + file.read()

    return read


def ask_mount(root: str, records: set[bytes]) -> Asked:
    """Return what a walk finds at each path: an errno, or attributes, entries and contents."""
    answers: Answers = {}
    faults: list[str] = []
    waiting = [b""]
    while waiting:
        path = waiting.pop()
        place = os.path.join(os.fsencode(root), path)
        answers[f"stat {path!r}"] = found = _answer(lambda p=place: _attributes(p))
        if isinstance(found, int):
            continue
        mode = found[0]
        if stat.S_ISDIR(mode):
            for name in (b"absent", b"\n", b"x" * 255):
                other = os.path.join(place, name)
                answers[f"stat {os.path.join(path, name)!r}"] = _answer(
                    lambda o=other: _attributes(o)
                )
            names = _answer(lambda p=place: sorted(os.listdir(p)))
            answers[f"list {path!r}"] = names
            if not isinstance(names, int):
                waiting += [os.path.join(path, name) for name in names]
        elif stat.S_ISLNK(mode):
            answers[f"readlink {path!r}"] = _answer(lambda p=place: os.readlink(p))
        else:
            data = _answer(lambda p=place: _content(p))
            answers[f"read {path!r}"] = data
            if not isinstance(data, int) and data not in records:
                faults.append(f"{path!r}: bytes of no record")
            if not isinstance(data, int) and len(data) != found[1]:
                faults.append(f"{path!r}: {len(data)} bytes, its size is {found[1]}")
        if len(answers) > 10 * _ENTRIES_MAX:
            faults.append("the tree has no end")
            break
    errors = {answer for answer in answers.values() if isinstance(answer, int)}
    if odd := errors - {errno.EIO, errno.ENOENT}:
        faults.append(f"other errors: {sorted(map(errno.errorcode.get, odd))}")
    return Asked(answers, faults)


def _answer(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except OSError as error:
        return error.errno


def _attributes(path: bytes) -> tuple[int, int, int, int]:
    found = os.lstat(path)
    return found.st_mode, found.st_size, found.st_nlink, found.st_mtime_ns


def _content(path: bytes | str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
