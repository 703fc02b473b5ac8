"""The folder that files are extracted to. Nothing is ever written outside it.

Folders below it are entered one name at a time, without following links; a file appears
under its name when it is whole, or not at all, and never takes the place of another.

Not here: what is written (extract.py). Concurrency: one thread.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE = 0o666  # less the umask


class Destination:
    """The folder `path`, made if it is missing; itself it may be a symbolic link."""

    def __init__(self, path: str) -> None:
        self._path = path
        os.makedirs(path, exist_ok=True)
        self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        # The folder that was used last; mostly the next file is in it, too.
        self._below = ""
        self._folder = os.dup(self._root)

    def folder(self, below: str) -> int:
        """Make the folder "a/b", with those above it, if missing; return a descriptor.

        It is valid until the next call. Raises OSError if something else is in the way.
        """
        if below != self._below:
            fd = os.dup(self._root)
            for name in below.split("/") if below else ():
                try:
                    with self._naming(below):
                        inner = _enter(fd, name)
                finally:
                    os.close(fd)
                fd = inner
            os.close(self._folder)
            self._folder, self._below = fd, below
        return self._folder

    def write(self, file: str, pieces: Iterable[Buffer]) -> None:
        """Write the file "a/b.png". Raises FileExistsError, and whatever `pieces` raises."""
        below, _, name = file.rpartition("/")
        folder = self.folder(below)
        if _exists(folder, name):  # found out before a large one is copied
            full = os.path.join(self._path, file)
            raise FileExistsError(f"{full}: exists already; nothing is overwritten")
        with self._naming(file):
            staged = _StagedFile(folder, name)
        try:
            for piece in pieces:
                with self._naming(file):
                    staged.write(piece)
            with self._naming(file):
                staged.publish()
        finally:
            staged.close()

    @contextlib.contextmanager
    def _naming(self, below: str) -> Iterator[None]:
        """Name the whole path in errors of calls that know only the last part."""
        try:
            yield
        except OSError as error:
            full = os.path.join(self._path, below)
            raise OSError(error.errno, error.strerror, full) from None

    def close(self) -> None:
        os.close(self._folder)
        os.close(self._root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _StagedFile:
    """A file without a name (O_TMPFILE), or with another one where there are no such files."""

    def __init__(self, folder: int, name: str) -> None:
        self._folder = folder
        self._name = name
        self._staging_name: str | None = None
        flags = os.O_WRONLY | os.O_CLOEXEC
        try:
            self._fd = os.open(".", flags | os.O_TMPFILE, _MODE, dir_fd=folder)
        except OSError:
            staging_name = f".{secrets.token_hex(8)}.partial"
            flags |= os.O_CREAT | os.O_EXCL
            self._fd = os.open(staging_name, flags, _MODE, dir_fd=folder)
            self._staging_name = staging_name

    def write(self, data: Buffer) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    def publish(self) -> None:
        """Give it its name. Raises FileExistsError."""
        folder = self._folder
        if self._staging_name is None:
            os.link(f"/proc/self/fd/{self._fd}", self._name, dst_dir_fd=folder)
            return
        try:
            os.link(self._staging_name, self._name, src_dir_fd=folder, dst_dir_fd=folder)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            os.rename(self._staging_name, self._name, src_dir_fd=folder, dst_dir_fd=folder)

    def close(self) -> None:
        os.close(self._fd)
        if self._staging_name is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._staging_name, dir_fd=self._folder)


def _enter(folder: int, name: str) -> int:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except NotADirectoryError as error:
        # Linux says this of links, too, where O_NOFOLLOW meets O_DIRECTORY.
        text = "is in the way: no folder, or a symbolic link, which is not followed"
        raise NotADirectoryError(error.errno, text) from None


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
