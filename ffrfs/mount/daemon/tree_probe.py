"""The program that tests, for the watchdog and others, whether a mount serves.

It runs as `python -I -S tree_probe.py MOUNTPOINT MAJOR:MINOR`. It answers each byte on standard
input, a question, with a letter (see the constants) once the mount has answered. It ends with its
standard input.

For READ it reads a whole file with O_DIRECT, so the kernel sends a READ each time, and the engine,
which keeps no block that was read to its end, fetches and verifies it each time. If no file
has a suitable size, or none may be opened, it calls statfs, which the kernel does not cache
either. For SIZE it calls statfs at once. An error for damaged bytes is an answer, too.

It is a process and not a thread, because it may wait for ever in a way that no signal ends, and
the daemon must not wait for it (watchdog.py). It holds no file of the mount between reads.

It imports the standard library only, so that it starts in 15 ms.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
from collections.abc import Iterator
from itertools import islice

READ = b"r"
SIZE = b"s"

ANSWERED = b"a"
ENDED = b"e"  # the connection has ended
ELSEWHERE = b"x"  # the mount is detached, or covered by another

SIZE_MAX = 4 << 20  # larger records are verified as a whole first, which takes long
FILES_MAX = 8
# Limits of the search for files, which runs once.
FOLDERS_MAX = 100
ENTRIES_MAX = 100  # of each directory


class TreeProbe:
    """Reads from one mount, and remembers suitable files."""

    def __init__(self, mountpoint: str, device: str) -> None:
        self._mountpoint = mountpoint
        self._device = os.makedev(*map(int, device.split(":")))
        self._listed = _escaped(mountpoint)
        self._listed_device = device.encode()
        self._buffer = mmap.mmap(-1, SIZE_MAX)  # aligned; pages are allocated only when read into
        self._files: list[str] | None = None

    def ask(self, question: bytes) -> bytes:
        """Wait for the mount's answer, and return its letter."""
        try:
            if not self._is_on_top():
                return ELSEWHERE
            if question == READ and self._files is None:
                self._files = list(islice(self._small_files(), FILES_MAX))
            if question == READ and self._files:
                return self._read(self._files[0])
            os.statvfs(self._mountpoint)
        except FileNotFoundError:
            return ELSEWHERE
        except OSError as error:
            return ENDED if _is_end(error) else ANSWERED
        return ANSWERED

    def _is_on_top(self) -> bool:
        """Return whether ours is the last mount at the place, without touching any mount."""
        found = None
        with open("/proc/self/mountinfo", "rb") as file:
            for line in file:
                _, _, device, _, place, _ = line.split(b" ", 5)
                if place == self._listed:
                    found = device
        return found == self._listed_device

    def _read(self, path: str) -> bytes:
        """Read a file; drop it from the list if that fails."""
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
        """Yield small files in the order of listings; a directory's own files come first."""
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
            except OSError as error:  # the directory is damaged, or forbidden
                if _is_end(error):
                    raise


def _escaped(path: str) -> bytes:
    """Return the path as the kernel lists it."""
    escaped = (
        b"\\%03o" % byte if byte in b" \t\n\\" else bytes([byte]) for byte in os.fsencode(path)
    )
    return b"".join(escaped)


def _is_end(error: OSError) -> bool:
    return error.errno in (errno.ENOTCONN, errno.ECONNABORTED, errno.ECANCELED)


def main() -> None:
    probe = TreeProbe(*sys.argv[1:])
    while question := os.read(0, 1):
        os.write(1, probe.ask(question))


if __name__ == "__main__":
    main()
