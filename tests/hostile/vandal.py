"""Acts on files that are mounted: overwrite in place, cut, replace, make whole again.

All acts but `replace` change the inode that was mounted, even if its name leads to another one.
"""

from __future__ import annotations

import ctypes
import os
import random
import time
from collections import Counter
from pathlib import Path

_PIECE_MAX = 1 << 18
_RANDOM_MAX = 1 << 16
_PAUSE_MAX_S = 0.02
_KEEP_SIZE, _PUNCH_HOLE = 1, 2

_libc = ctypes.CDLL(None, use_errno=True)


class Victim:
    """A file that was mounted; `others`: contents that may replace its own, and are as sound."""

    def __init__(self, path: Path, others: list[bytes]) -> None:
        self.path = path
        self.others = others
        self.sound = path.read_bytes()
        self.fd = os.open(path, os.O_RDWR)
        self._kept = path.with_name(f".{path.name}.kept")
        os.link(path, self._kept)

    def give_name_back(self) -> None:
        link = self.path.with_name(f".{self.path.name}.link")
        os.link(self._kept, link)
        os.rename(link, self.path)  # does nothing if the inode still has the name
        link.unlink(missing_ok=True)

    def close(self) -> None:
        os.close(self.fd)


class Vandal:
    """Does random acts to the victims; the seed decides which."""

    def __init__(self, victims: list[Victim], seed: int) -> None:
        self.acts: Counter[str] = Counter()
        self._victims = victims
        self._random = random.Random(seed)
        self._acts = {
            **{self.rewrite: 3, self.overwrite: 3, self.spoil: 4, self.punch: 2, self.cut: 3},
            **{self.grow: 1, self.replace: 2, self.make_whole: 4, self.touch: 1},
        }

    def rage(self, duration_s: float) -> None:
        end_s = time.monotonic() + duration_s
        while time.monotonic() < end_s:
            (act,) = self._random.choices(list(self._acts), list(self._acts.values()))
            self.acts[act.__name__] += 1
            act(self._random.choice(self._victims))
            time.sleep(self._random.random() * _PAUSE_MAX_S)

    def wipe_all(self) -> None:
        """Fill all files with zeros."""
        for victim in self._victims:
            victim.give_name_back()
            os.ftruncate(victim.fd, len(victim.sound))
            self._write(victim, bytes(len(victim.sound)))

    def make_all_whole(self) -> None:
        for victim in self._victims:
            self.make_whole(victim)

    def rewrite(self, victim: Victim) -> None:
        """Write the same bytes, in pieces, in any order."""
        self._write(victim, victim.sound)

    def overwrite(self, victim: Victim) -> None:
        self._write(victim, self._random.choice(victim.others))

    def spoil(self, victim: Victim) -> None:
        data = self._random.randbytes(self._random.choice([1, 100, 4096, _RANDOM_MAX]))
        os.pwrite(victim.fd, data, self._place(victim, len(data)))

    def punch(self, victim: Victim) -> None:
        """Punch a hole: the file gets zeros without a write."""
        size = self._random.choice([4096, _RANDOM_MAX, 1 << 20])
        offset = ctypes.c_long(self._place(victim, size))
        _libc.fallocate(victim.fd, _KEEP_SIZE | _PUNCH_HOLE, offset, ctypes.c_long(size))

    def cut(self, victim: Victim) -> None:
        os.ftruncate(victim.fd, self._random.choice([0, 12, self._place(victim, 1)]))

    def grow(self, victim: Victim) -> None:
        os.ftruncate(victim.fd, len(victim.sound) + self._random.randrange(1 << 20))

    def replace(self, victim: Victim) -> None:
        staged = victim.path.with_name(f".{victim.path.name}.new")
        staged.write_bytes(self._random.choice(victim.others))
        os.rename(staged, victim.path)

    def make_whole(self, victim: Victim) -> None:
        victim.give_name_back()
        os.ftruncate(victim.fd, len(victim.sound))
        self._write(victim, victim.sound)

    def touch(self, victim: Victim) -> None:
        os.utime(victim.fd)

    def _place(self, victim: Victim, size: int) -> int:
        """Return an offset, more often near the beginning and the end, where the metadata is."""
        last = max(0, len(victim.sound) - size)
        near = min(last, self._random.randrange(1 << 17))
        return self._random.choice([near, last - near, self._random.randrange(last + 1)])

    def _write(self, victim: Victim, data: bytes) -> None:
        size = self._random.randrange(4096, _PIECE_MAX)
        places = list(range(0, len(data), size))
        if self._random.random() < 0.5:
            self._random.shuffle(places)
        for at in places:
            os.pwrite(victim.fd, data[at : at + size], at)
