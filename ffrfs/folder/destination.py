"""The directory that files are extracted to. It writes nothing outside of it.

Directories below it are entered one name at a time, without following links; a file appears
under its name when it is whole, or not at all, and replaces another one only if asked to.
Permissions and times are set if the file system has them, and only on files made here.

Not here: the choice of files (extract.py). Concurrency: one thread.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from ffrfs.errors import OptionError, naming
from ffrfs.files.closing import Closing
from ffrfs.files.staged_file import StagedFile
from ffrfs.remote.url import is_url

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS = 0o777

# What becomes of a file or link that exists already.
Existing: TypeAlias = Literal["error", "skip", "replace"]


class Stored(NamedTuple):
    """The packed attributes of a file, directory or link."""

    permissions: int
    mtime_ns: int


class Destination(Closing):
    """The directory `path`, made if it is missing; it may be a symbolic link itself."""

    def __init__(self, path: str, existing: Existing = "error") -> None:
        if is_url(path):  # otherwise a directory "s3:" would be made
            raise OptionError(f"{path}: is a URL; files are extracted to a local directory")
        self._path = path
        self._existing = existing
        self._made: set[str] = set() if os.path.isdir(path) else {""}
        with contextlib.suppress(FileExistsError):  # of a file, which is no directory to open
            os.makedirs(path, exist_ok=True)
        self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        # The last directory is kept open, because the next file is usually in it, too.
        self._below = ""
        self._folder = os.dup(self._root)

    def folder(self, below: str) -> int:
        """Make the directory "a/b", with those above it, if missing; return a descriptor.

        It is valid until the next call. Raises OSError if another kind of file is in the way.
        """
        if below != self._below:
            fd = os.dup(self._root)
            at = ""
            for name in below.split("/") if below else ():
                at = f"{at}/{name}" if at else name
                try:
                    with naming(os.path.join(self._path, below)):
                        if _make(fd, name):
                            self._made.add(at)
                        inner = _enter(fd, name)
                finally:
                    os.close(fd)
                fd = inner
            os.close(self._folder)
            self._folder, self._below = fd, below
        return self._folder

    def describe_folder(self, below: str, stored: Stored) -> None:
        """Set the packed time and permissions of the directory "a/b", if it was made here.

        Call it after its contents were written, and after the calls for directories below it.
        """
        if below in self._made:
            _describe(self.folder(below), stored)

    def link(self, path: str, target: str, stored: Stored | None = None) -> None:
        """Make the symbolic link "a/b"; call it after all files, so that none passes through it."""
        folder, name = self._place(path)
        with naming(os.path.join(self._path, path)):
            if self._existing == "replace":
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
            os.symlink(target, name, dir_fd=folder)
        if stored is not None:
            times = (stored.mtime_ns, stored.mtime_ns)
            with contextlib.suppress(OSError):
                os.utime(name, ns=times, dir_fd=folder, follow_symlinks=False)

    def write(self, file: str, pieces: Iterable[Buffer], stored: Stored | None = None) -> None:
        """Write the file "a/b.png". Raises FileExistsError, and all errors of `pieces`."""
        folder, _ = self._place(file)
        with StagedFile(os.path.join(self._path, file), follow=False, folder=folder) as staged:
            for piece in pieces:
                staged.write(piece)
            if stored is not None:
                _describe(staged.fd, stored)
            staged.publish(replace=self._existing == "replace", sync=False)

    def is_left(self, path: str) -> bool:
        """Return whether the file or link "a/b" exists, and is to be left as it is."""
        if self._existing != "skip":
            return False
        below, _, name = path.rpartition("/")
        return _exists(self.folder(below), name)

    def _place(self, path: str) -> tuple[int, str]:
        """Return the directory and the last part of "a/b". Raises FileExistsError."""
        below, _, name = path.rpartition("/")
        folder = self.folder(below)
        # Tested before a large file is copied.
        if self._existing != "replace" and _exists(folder, name):
            full = os.path.join(self._path, path)
            raise FileExistsError(
                f"{full}: exists already; to go on without it: --skip-existing; to replace it: "
                "--force"
            )
        return folder, name

    def close(self) -> None:
        os.close(self._folder)
        os.close(self._root)


def _describe(fd: int, stored: Stored) -> None:
    with contextlib.suppress(OSError):  # some file systems have neither
        os.fchmod(fd, stored.permissions & _PERMISSIONS)
    with contextlib.suppress(OSError):
        os.utime(fd, ns=(stored.mtime_ns, stored.mtime_ns))


def _make(folder: int, name: str) -> bool:
    """Make a directory; return False if the name exists already."""
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        return False
    return True


def _enter(folder: int, name: str) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except NotADirectoryError as error:
        # With O_NOFOLLOW and O_DIRECTORY, Linux gives this error for symbolic links, too.
        text = "is in the way: not a directory, or a symbolic link, which is not followed"
        raise NotADirectoryError(error.errno, text) from None


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
