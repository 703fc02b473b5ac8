"""A disk that stalls or fails on command: a FUSE file system with one file, "pack".

It passes every read on to the file it was given, past the page cache, and takes orders
on its standard input, one per line:

    stall START END   reads of a byte in [START, END) wait, and say "stalled" on stdout
    fail START END    they fail with EIO instead
    short START END   they return half of the bytes, as direct I/O may
    trouble START END most fail with EIO or ESTALE, some come late
    slow START END    they all come late
    go                no read waits or fails any longer
    refuse            waiting reads fail with EIO, and so do later reads of the range

The tests start its main() in a process of its own; the arguments are FILE MOUNTPOINT.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import stat
import sys

import pyfuse3
import trio

PACK_INO = 2
NAME = b"pack"
LATE_MAX_S = 0.05
# Shares of the reads in trouble; ffrfs tries a read again in other ways before it fails.
FAILING_SHARE, LATE_SHARE = 0.6, 0.2


class StallingDisk(pyfuse3.Operations):
    """The handlers for the root folder and "pack"."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._fd = os.open(path, os.O_RDONLY)
        self._size = os.fstat(self._fd).st_size
        self._stalled = range(0)
        self._failing = range(0)
        self._short = range(0)
        self._troubled = range(0)
        self._slow = range(0)
        self._go = trio.Event()

    def order(self, word: str, *numbers: str) -> None:
        if word in ("go", "refuse"):
            self._failing = self._stalled if word == "refuse" else range(0)
            self._stalled = self._short = self._troubled = self._slow = range(0)
            self._go.set()
            self._go = trio.Event()
        elif word == "stall":
            self._stalled = range(*map(int, numbers))
        elif word == "fail":
            self._failing = range(*map(int, numbers))
        elif word == "short":
            self._short = range(*map(int, numbers))
        elif word == "trouble":
            self._troubled = range(*map(int, numbers))
        elif word == "slow":
            self._slow = range(*map(int, numbers))

    async def getattr(self, ino, _ctx=None):
        entry = pyfuse3.EntryAttributes()
        entry.st_ino = ino
        entry.st_mode = stat.S_IFREG | 0o444 if ino == PACK_INO else stat.S_IFDIR | 0o555
        entry.st_size = self._size if ino == PACK_INO else 0
        return entry

    async def lookup(self, _parent, name, _ctx):
        if name != NAME:
            raise pyfuse3.FUSEError(errno.ENOENT)
        return await self.getattr(PACK_INO)

    async def opendir(self, ino, _ctx):
        return ino

    async def open(self, ino, _flags, _ctx):
        # direct_io: no page cache in between, so that every read reaches the disk.
        return pyfuse3.FileInfo(fh=ino, direct_io=True)

    async def release(self, _fh):
        pass

    async def read(self, _fh, offset, size):
        if _overlap(self._stalled, offset, size):
            say("stalled")
            await self._go.wait()
        if _overlap(self._failing, offset, size):
            raise pyfuse3.FUSEError(errno.EIO)
        if _overlap(self._troubled, offset, size):
            await self._trouble()
        if _overlap(self._slow, offset, size):
            await trio.sleep(random.random() * LATE_MAX_S)
        if _overlap(self._short, offset, size):
            size = max(1, size // 2)
        return os.pread(self._fd, size, offset)

    async def _trouble(self):
        draw = random.random()
        if draw < FAILING_SHARE:
            raise pyfuse3.FUSEError(random.choice([errno.EIO, errno.ESTALE]))
        if draw < FAILING_SHARE + LATE_SHARE:
            await trio.sleep(random.random() * LATE_MAX_S)


def _overlap(bad: range, offset: int, size: int) -> bool:
    return bad.start < offset + size and offset < bad.stop


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def obey(disk: StallingDisk) -> None:
    pending = b""
    while True:
        await trio.lowlevel.wait_readable(0)
        chunk = os.read(0, 4096)
        if not chunk:  # the test has ended, one way or another
            disk.order("go")
            return
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            disk.order(*line.decode().split())
            say("done")


async def serve(disk: StallingDisk) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(obey, disk)
        say("done")
        await pyfuse3.main(max_tasks=200)
        nursery.cancel_scope.cancel()


def main() -> None:
    path, mountpoint = sys.argv[1:]
    disk = StallingDisk(path)
    # A withdrawn request must not block this loop either (see pyfuse3_engine.py).
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    pyfuse3.init(disk, mountpoint, {"fsname=stalling", "default_permissions"})
    try:
        trio.run(serve, disk)
    finally:
        pyfuse3.close()
