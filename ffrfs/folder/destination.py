"""The directory that files are extracted to. It writes nothing outside of it.

Directories below it are entered one name at a time, without following links; a file appears
under its name when it is whole, or not at all, and replaces another one only if asked to.
Permissions and times are set if the file system has them, and only on files and directories made
here. If existing files are skipped, they are also set on existing directories of this user, which
an interrupted extraction may have made.

Not here: the choice of files (extract.py). Concurrency: one thread.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from ffrfs.errors import OptionError, naming
from ffrfs.files.closing import Closing
from ffrfs.files.leftovers import remove_leftovers, staging_name
from ffrfs.files.replacing import refuse_standard_output
from ffrfs.files.staged_file import StagedFile, is_taken
from ffrfs.remote.url import is_url

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS = 0o777
_PRIVATE = 0o700  # of a directory until it has its packed permissions

# The treatment of a file or link that exists already.
Existing: TypeAlias = Literal["error", "skip", "replace"]


class Stored(NamedTuple):
    """The packed attributes of a file, directory or link."""

    permissions: int
    mtime_ns: int


# Gives the packed attributes of a directory "a/b", if they are known.
StoredOf: TypeAlias = Callable[[str], Stored | None]


class Destination(Closing):
    """The directory `path`, made if it is missing; it may be a symbolic link itself."""

    def __init__(
        self, path: str, existing: Existing = "error", stored_of: StoredOf = lambda _: None
    ) -> None:
        if is_url(path):  # otherwise a directory "s3:" would be made
            raise OptionError(f"{path}: is a URL; files are extracted to a local directory")
        refuse_standard_output(path)
        self._path = path
        self._existing = existing
        self._stored_of = stored_of
        self._described: dict[str, Stored] = {}  # directories, those above before those below
        if not os.path.isdir(path):
            if (stored := stored_of("")) is not None:
                self._described[""] = stored
            mode = _PRIVATE if self._described else _PERMISSIONS
            with contextlib.suppress(FileExistsError):  # of a file, which is no directory to open
                os.makedirs(path, mode, exist_ok=True)
        self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        # The last directory is kept open, because the next file is usually in it, too.
        self._below = ""
        self._folder = os.dup(self._root)
        remove_leftovers(self._folder)

    def folder(self, below: str) -> int:
        """Make the directory "a/b", with those above it, if missing; return a descriptor.

        It is valid until the next call. Raises OSError if another kind of file is in the way.
        """
        if below != self._below:
            # Below the last one only the rest of the way is opened: trees may be deep.
            at = self._below if below.startswith(f"{self._below}/") else ""
            fd = os.dup(self._folder if at else self._root)
            for name in filter(None, below[len(at) :].split("/")):
                at = f"{at}/{name}" if at else name
                try:
                    with naming(os.path.join(self._path, below)):
                        inner = self._inner(fd, name, at)
                finally:
                    os.close(fd)
                fd = inner
            os.close(self._folder)
            self._folder, self._below = fd, below
            remove_leftovers(fd)
        return self._folder

    def describe_folders(self, *, is_whole: bool) -> None:
        """Set the packed times and permissions of directories, after all was written.

        Unless the extraction `is_whole`, the owner keeps write permission, so that it can go on.
        """
        for below, stored in reversed([*self._described.items()]):
            if is_whole:
                _describe(self.folder(below), stored)
                continue
            with contextlib.suppress(OSError):  # another error has ended the extraction
                permissions = stored.permissions | _PRIVATE
                _describe(self.folder(below), stored._replace(permissions=permissions))

    def link(self, path: str, target: str, stored: Stored | None = None) -> None:
        """Make the symbolic link "a/b"; call it after all files, so that none passes through it."""
        folder, name = self._place(path)
        with naming(os.path.join(self._path, path)):
            if self._existing == "replace" and is_taken(name, folder):
                _replace_by_link(folder, name, target)
            else:
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
        return is_taken(name, self.folder(below))

    def _place(self, path: str) -> tuple[int, str]:
        """Return the directory and the last part of "a/b". Raises FileExistsError."""
        below, _, name = path.rpartition("/")
        folder = self.folder(below)
        # Tested before a large file is copied.
        if self._existing != "replace" and is_taken(name, folder):
            full = os.path.join(self._path, path)
            raise FileExistsError(
                f"{full}: exists already; to go on without it: --skip-existing; to replace it: "
                "--force"
            )
        return folder, name

    def _inner(self, above: int, name: str, path: str) -> int:
        """Open a directory, made if it is missing."""
        if self._existing != "skip" or path in self._described:
            with contextlib.suppress(FileNotFoundError):
                return _enter(above, name)
        stored = self._described.get(path) or self._stored_of(path)
        is_described = _make(above, name, _PERMISSIONS if stored is None else _PRIVATE)
        fd = _enter(above, name)
        if self._existing == "skip":
            is_described |= os.fstat(fd).st_uid == os.geteuid()
        if is_described and stored is not None:
            self._described[path] = stored
        return fd

    def close(self) -> None:
        os.close(self._folder)
        os.close(self._root)


def _describe(fd: int, stored: Stored) -> None:
    with contextlib.suppress(OSError):  # some file systems have neither
        os.fchmod(fd, stored.permissions & _PERMISSIONS)
    with contextlib.suppress(OSError):
        os.utime(fd, ns=(stored.mtime_ns, stored.mtime_ns))


def _make(folder: int, name: str, mode: int) -> bool:
    """Make a directory; return False if the name exists already."""
    try:
        os.mkdir(name, mode, dir_fd=folder)
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


def _replace_by_link(folder: int, name: str, target: str) -> None:
    while True:
        made = staging_name(name)
        os.symlink(target, made, dir_fd=folder)
        try:
            os.rename(made, name, src_dir_fd=folder, dst_dir_fd=folder)
            return
        except FileNotFoundError:
            # Another process has taken it for a dead process's link (leftovers.py), or the
            # directory itself is gone, and then no link can be made in it.
            continue
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(made, dir_fd=folder)
            raise
