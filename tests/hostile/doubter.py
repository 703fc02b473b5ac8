"""A reader that compares everything in a mount with the folder that the mount must show.

Runs in a child (tests/mount/child.py). Allowed are the folder's own names, sizes and bytes,
and the errors of a damaged pack; everything else is reported as a fault, in words.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tests.hostile.ways import WAYS, drop_pages

# A program that maps a file would get SIGBUS in place of EFAULT.
DAMAGE = {errno.EIO, errno.EFAULT}
_EDGES = [0, 1, 511, 4095, 4096, 4097, 131071, 131072, 1 << 20]
_SIZES = [1, 100, 4096, 65537, 131072, 1 << 20, 1 << 30]
_LARGE_COUNT = 20  # files that are read as often as all others
_FAULTS_MAX = 5


def doubt(root: str, model: str, seed: int) -> Iterator[Any]:
    """Yield "ready"; ask at random until SIGUSR1 comes; yield the results."""
    ending = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: ending.set())
    doubter = _Doubter(root, model, random.Random(seed))
    yield "ready"
    while not ending.is_set() and len(doubter.faults) < _FAULTS_MAX:
        doubter.ask_something()
    yield doubter.told()


def differences(root: str, model: str) -> list[str]:
    """Compare all of the mount, past its cache, with all of the model; an error counts, too."""
    doubter = _Doubter(root, model, random.Random(0), allowed=set())
    for path in ["", *doubter.folders]:
        doubter.check_listing(path)
    for path in doubter.paths:
        doubter.check_attributes(path)
    for path in doubter.files:
        doubter.check_bytes(path, "pread", 0, 1 << 30, drops=True)
    return doubter.faults


class _Doubter:
    def __init__(
        self, root: str, model: str, order: random.Random, allowed: set[int] | None = None
    ) -> None:
        self._root, self._model, self._order = root, model, order
        self._allowed = DAMAGE if allowed is None else allowed
        self.folders, self.files, self.links = _walk(model)
        self._large = sorted(self.files, key=self._model_size)[-_LARGE_COUNT:]
        self.paths = [*self.folders, *self.files, *self.links]
        self.faults: list[str] = []
        self._answers: Counter[str] = Counter()
        self._longest: tuple[float, str] = (0.0, "")

    def _model_size(self, path: str) -> int:
        return os.path.getsize(os.path.join(self._model, path))

    def told(self) -> dict[str, Any]:
        return {
            "faults": self.faults,
            "answers": dict(self._answers),
            "longest_s": self._longest[0],
            "longest": self._longest[1],
        }

    def ask_something(self) -> None:
        draw = self._order.random()
        if draw < 0.80:
            way = self._order.choice(list(WAYS))
            edge = self._order.choice(_EDGES)
            offset = self._order.choice([edge, self._order.randrange(1 << 23)])
            size = self._order.choice(_SIZES)
            path = self._order.choice(self._order.choice([self.files, self._large]))
            self.check_bytes(path, way, offset, size, drops=self._order.random() < 0.7)
        elif draw < 0.88:
            self.check_attributes(self._order.choice(self.paths))
        elif draw < 0.96:
            self.check_absence(self._order.choice(["", *self.folders]))
        else:
            self.check_listing(self._order.choice(["", *self.folders]))

    def check_bytes(self, path: str, way: str, offset: int, size: int, *, drops: bool) -> None:
        with open(os.path.join(self._model, path), "rb") as file:
            offset = min(offset, max(0, os.fstat(file.fileno()).st_size - 1))
            file.seek(offset)
            expected = file.read(size)
        place = os.path.join(self._root, path)
        if drops:
            self._timed("drop", path, lambda: drop_pages(place))
        count = 0
        while count < len(expected):
            at, left = offset + count, len(expected) - count
            data = self._timed(way, path, lambda a=at, s=left: WAYS[way](place, a, s))
            if data is None:
                return
            if not data:
                self._fault(f"{path!r}, {way}: ends at {at}, {left} bytes too early")
                return
            if data != expected[count : count + len(data)]:
                self._fault(f"{path!r}, {way}: wrong bytes in {len(data)} at {at}")
                return
            count += len(data)

    def check_attributes(self, path: str) -> None:
        expected = os.lstat(os.path.join(self._model, path))
        place = os.path.join(self._root, path)
        found = self._timed("stat", path, lambda: os.lstat(place))
        if found is None:
            return
        if stat.S_IFMT(found.st_mode) != stat.S_IFMT(expected.st_mode):
            self._fault(f"{path!r}: is of another type")
        elif not stat.S_ISDIR(expected.st_mode) and found.st_size != expected.st_size:
            self._fault(f"{path!r}: has {found.st_size} bytes, not {expected.st_size}")
        if stat.S_ISLNK(expected.st_mode):
            target = self._timed("readlink", path, lambda: os.readlink(place))
            if target not in (None, os.readlink(os.path.join(self._model, path))):
                self._fault(f"{path!r}: leads to {target!r}")

    def check_absence(self, folder: str) -> None:
        path = os.path.join(folder, f"absent {self._order.random()}")
        self._timed("absent", path, lambda: os.lstat(os.path.join(self._root, path)))

    def check_listing(self, folder: str) -> None:
        names = self._timed("list", folder, lambda: os.listdir(os.path.join(self._root, folder)))
        expected = os.listdir(os.path.join(self._model, folder))
        if names is not None and sorted(names) != sorted(expected):
            self._fault(f"{folder!r}: lists {len(names)} names, not those that it has")

    def _timed(self, what: str, path: str, act: Callable[[], Any]) -> Any:
        """Return the answer; None: an error, which is a fault unless damage may cause it."""
        began_s = time.monotonic()
        outcome = "right"
        try:
            return act()
        except OSError as error:
            outcome = errno.errorcode[error.errno or 0]
            allowed = {errno.ENOENT} if what == "absent" else set()
            if error.errno not in self._allowed | allowed:
                self._fault(f"{path!r}, {what}: {outcome}")
            return None
        finally:
            self._answers[f"{what}: {outcome}"] += 1
            self._longest = max(self._longest, (time.monotonic() - began_s, f"{what} {path!r}"))

    def _fault(self, words: str) -> None:
        self.faults.append(words)


def _walk(top: str) -> tuple[list[str], list[str], list[str]]:
    """Return (folders, files, links), relative to `top`."""
    folders, files, links = [], [], []
    for folder, inner, names in os.walk(top):
        for name in inner + names:
            path = os.path.relpath(os.path.join(folder, name), top)
            is_link = os.path.islink(os.path.join(folder, name))
            (links if is_link else folders if name in inner else files).append(path)
    return sorted(folders), sorted(files), sorted(links)
