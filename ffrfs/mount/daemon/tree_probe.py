"""The program that asks a mount, for the watchdog, whether it serves: one small read.

Run as `python -I -S tree_probe.py MOUNTPOINT MAJOR:MINOR`. Each byte on standard input is
answered with a letter, once the mount has answered: see the constants. It ends with its
standard input.

The read is of a whole file, with O_DIRECT: so the kernel sends a READ each time, and the
engine, which keeps no block that was read to its end, fetches and verifies it each time.
Where there is no file of a size for that, or none that may be opened, statfs is asked,
which the kernel does not remember either. That the bytes are damaged is an answer, too.

A process of its own and not a thread: it may wait for ever, in a way that no signal ends,
and must not be waited for (watchdog.py). It holds nothing of the mount between reads.

Imports the standard library only, so as to start in 15 ms.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
from collections.abc import Iterator
from itertools import islice

ANSWERED = b"a"
ENDED = b"e"  # the connection has
ELSEWHERE = b"x"  # the mount is no longer there: detached, or covered by another

SIZE_MAX = 4 << 20  # larger records are verified as a whole at first, which takes its time
FILES_MAX = 8
# Of the search for files, which is made once.
FOLDERS_MAX = 100
ENTRIES_MAX = 100  # of each directory


class TreeProbe:
    """Asks one mount; remembers which files it reads."""

    def __init__(self, mountpoint: str, device: str) -> None:
        self._mountpoint = mountpoint
        self._device = os.makedev(*map(int, device.split(":")))
        self._buffer = mmap.mmap(-1, SIZE_MAX)  # aligned, and only touched as far as read
        self._files: list[str] | None = None

    def ask(self) -> bytes:
        """Wait for the mount's answer."""
        try:
            if os.stat(self._mountpoint).st_dev != self._device:
                return ELSEWHERE
            if self._files is None:
                self._files = list(islice(self._small_files(), FILES_MAX))
            if self._files:
                return self._read(self._files[0])
            os.statvfs(self._mountpoint)
        except FileNotFoundError:
            return ELSEWHERE
        except OSError as error:
            return ENDED if _is_end(error) else ANSWERED
        return ANSWERED

    def _read(self, path: str) -> bytes:
        """Of the first file that can be read; others are not tried again."""
        assert self._files is not None
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
            try:
                if os.fstat(fd).st_dev != self._device:
                    return ELSEWHERE
                os.preadv(fd, [self._buffer], 0)
            finally:
                os.close(fd)
        except FileNotFoundError:
            raise
        except OSError as error:
            if _is_end(error):
                raise
            del self._files[0]
            os.statvfs(self._mountpoint)
        return ANSWERED

    def _small_files(self) -> Iterator[str]:
        """As they come, the first of each directory before what is in its directories."""
        folders = [self._mountpoint]
        for _ in range(FOLDERS_MAX):
            if not folders:
                return
            path = folders.pop()
            try:
                with os.scandir(path) as entries:
                    found = list(islice(entries, ENTRIES_MAX))
                for entry in found:
                    if entry.is_file(follow_symlinks=False):
                        if 0 < entry.stat(follow_symlinks=False).st_size <= SIZE_MAX:
                            yield entry.path
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
            except OSError as error:  # damaged, or not ours to look into
                if _is_end(error):
                    raise


def _is_end(error: OSError) -> bool:
    return error.errno in (errno.ENOTCONN, errno.ECONNABORTED, errno.ECANCELED)


def main() -> None:
    probe = TreeProbe(*sys.argv[1:])
    while os.read(0, 1):
        os.write(1, probe.ask())


if __name__ == "__main__":
    main()
