"""Loads that make a mount hold as much memory as it can; they run in children (child.py).

Half of the reads are direct, so the mount gets all of them. After each read the kernel drops
the file's pages, so that the mount gets most of the others, too.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import threading
import time
from collections.abc import Iterator

from ffrfs.errors import MountError
from ffrfs.mount.client.hint_stream import HintStream

_STEP = 1 << 20
_LOAD_MIN = 16 << 20
_HINTS_OF_EACH = 20_000


def read_at_random(folder: str, reader_count: int, seed: int, time_s: float) -> int:
    """Read with so many threads for so many seconds; return the number of bytes.

    On a busy machine this takes longer, until it has read `_LOAD_MIN` bytes.
    """
    names = [entry.path for entry in os.scandir(folder)]
    totals = [0] * reader_count
    end_s = time.monotonic() + time_s

    def read(serial: int) -> None:
        chance = random.Random(seed * 1000 + serial)
        with mmap.mmap(-1, _STEP) as buffer:
            while time.monotonic() < end_s or sum(totals) <= _LOAD_MIN:
                totals[serial] += _read_some(chance, names, buffer)

    threads = [threading.Thread(target=read, args=(i,)) for i in range(reader_count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(totals)


def _read_some(chance: random.Random, names: list[str], buffer: mmap.mmap) -> int:
    flags = os.O_RDONLY | (os.O_DIRECT if chance.random() < 0.5 else 0)
    fd = os.open(chance.choice(names), flags)
    try:
        size = os.fstat(fd).st_size
        offset = chance.randrange(max(size - _STEP, 1)) // mmap.PAGESIZE * mmap.PAGESIZE
        count = os.preadv(fd, [buffer], offset)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
    return count


def flood(mountpoint: str, client_count: int, record_count: int) -> Iterator[int]:
    """Hint far more than anybody reads, from many clients; yield how many were accepted."""
    streams: list[HintStream] = []

    def send(stream: HintStream, serial: int) -> None:
        chance = random.Random(serial)
        hints = [b"%d" % chance.randrange(record_count) for _ in range(_HINTS_OF_EACH)]
        with contextlib.suppress(MountError):  # one client too many, or stopped
            stream.send(hints)

    threads = []
    for serial in range(client_count):
        with contextlib.suppress(MountError):
            streams.append(HintStream(mountpoint))
            threads.append(threading.Thread(target=send, args=(streams[-1], serial)))
            threads[-1].start()
    yield len(streams)
    for stream in streams:
        stream.stop()
    for thread in threads:
        thread.join()
    for stream in streams:
        stream.close()


def knock(mountpoint: str, count: int) -> int:
    """Connect so many clients in turn, which hint and close; return how many were accepted."""
    let_in = 0
    for serial in range(count):
        with contextlib.suppress(MountError):
            stream = HintStream(mountpoint)
            let_in += 1
            with contextlib.suppress(MountError):
                stream.send([b"%d" % serial])
            stream.close()
    return let_in
