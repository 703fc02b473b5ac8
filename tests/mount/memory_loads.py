"""Loads that make a mount hold as much as it can; run in children (child.py).

Direct reads ask the mount each time; half of the others find the kernel's pages gone.
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
    """How many bytes so many threads have read, in so many seconds.

    On a busy machine it takes longer: until it is a load, of `_LOAD_MIN` bytes.
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
    """Clients that hint far more than anybody reads; first how many were let in."""
    streams: list[HintStream] = []

    def send(stream: HintStream, serial: int) -> None:
        chance = random.Random(serial)
        hints = [b"%d" % chance.randrange(record_count) for _ in range(_HINTS_OF_EACH)]
        with contextlib.suppress(MountError):  # one too many; or stopped
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
    """So many clients one after the other, who hint and die; how many were let in."""
    let_in = 0
    for serial in range(count):
        with contextlib.suppress(MountError):
            stream = HintStream(mountpoint)
            let_in += 1
            with contextlib.suppress(MountError):
                stream.send([b"%d" % serial])
            stream.close()
    return let_in
