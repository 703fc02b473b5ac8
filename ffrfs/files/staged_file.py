"""Files and directories that are complete when they appear under their names, or never appear.

As the native writer does for FFRecord files (native/record/staged_file.h), Python writes all
bytes to a file without a name (O_TMPFILE), which the kernel drops however the process ends. If a
file system has no such files, they lie under a staging name beside the target. Like a staged
directory, that remains only after a SIGKILL, until the next command that writes there removes it
(leftovers.py).

Concurrency: one thread for each.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ffrfs.errors import PackError, naming
from ffrfs.files.closing import Closing, closing_fd
from ffrfs.files.leftovers import hold, remove_leftovers, staging_name, take_lock

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MODE = 0o666  # less the umask
_FOLDER_MODE = 0o777
# O_PATH suffices for a directory that may be written but not read.
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class StagedFile(Closing):
    """A file whose bytes, written here or to the path `place`, become `path` at publish().

    If `path` is a symbolic link, its target is replaced; without `follow`, the link itself.
    `folder`: a descriptor of the directory that `path` is in. `mode`: the permissions, whatever
    the umask. Raises PackError if something is there that must not be replaced, OSError if the
    file cannot be made.
    """

    def __init__(
        self, path: str, *, follow: bool = True, folder: int | None = None, mode: int | None = None
    ) -> None:
        self.path = path
        if folder is None:
            _refuse_irregular(path, follow)
        above, self._name = os.path.split(os.path.realpath(path) if follow else path)
        self._staging_name: str | None = None
        with naming(self.path), contextlib.ExitStack() as failed:
            # Held by descriptor, so that a chdir() of the process does not move the target.
            self._folder = os.open(above or ".", _FOLDER) if folder is None else os.dup(folder)
            failed.callback(os.close, self._folder)
            self.fd = self._open(_MODE if mode is None else mode)
            failed.pop_all()
            failed.callback(self.close)
            if mode is not None:
                os.fchmod(self.fd, mode)
            failed.pop_all()
        self.place = f"/proc/self/fd/{self.fd}"

    def write(self, data: Buffer) -> None:
        """Append all of `data`."""
        with naming(self.path), memoryview(data).cast("B") as view:
            done = 0
            while done < len(view):
                done += os.write(self.fd, view[done:])

    def publish(self, *, replace: bool = True, sync: bool = True) -> None:
        """Give the file its name; unless `replace`, raise FileExistsError if the name exists.

        `sync`: the bytes are on disk before the file gets its name, and the name is at the end.
        """
        with naming(self.path):
            if sync:
                os.fsync(self.fd)
            if replace:
                self._replace()
            else:
                self._link()
        if sync:
            sync_folder(".", self._folder)

    def _replace(self) -> None:
        if self._staging_name is None:
            # link() replaces nothing, so a staging name is needed here, too; one of a process that
            # was killed just here would stay for ever.
            remove_leftovers(self._folder)
            name = staging_name(self._name)
            os.link(self.place, name, dst_dir_fd=self._folder)
            self._staging_name = name
        self._rename(self._staging_name)
        self._staging_name = None

    def _link(self) -> None:
        if self._staging_name is None:
            os.link(self.place, self._name, dst_dir_fd=self._folder)
        else:
            move_new(self._staging_name, self._name, self._folder)

    def _rename(self, name: str) -> None:
        os.rename(name, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def _open(self, mode: int) -> int:
        flags = os.O_WRONLY | os.O_CLOEXEC
        with contextlib.suppress(OSError):
            fd = os.open(".", flags | os.O_TMPFILE, mode, dir_fd=self._folder)
            take_lock(fd)  # publish() gives it a staging name for a moment
            return fd
        remove_leftovers(self._folder)
        while True:
            name = staging_name(self._name)
            fd = os.open(name, flags | os.O_CREAT | os.O_EXCL, mode, dir_fd=self._folder)
            if hold(fd, name, self._folder):
                self._staging_name = name
                return fd
            os.close(fd)

    def close(self) -> None:
        """Drop the bytes, unless they were published."""
        os.close(self.fd)
        if self._staging_name is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._staging_name, dir_fd=self._folder)
        os.close(self._folder)


@contextlib.contextmanager
def staged_folder(
    above: str, name: str, path: str | None = None, *, mode: int = _FOLDER_MODE
) -> Iterator[str]:
    """Make a directory in `above` for files on their way to `path`: `above`, or `name` in it.

    At the end it is removed with its contents. Errors name `path`, if given, in its place, and
    `name` for a file in it that has its own name.
    """
    remove_leftovers(above, again=True)
    place, fd = _made_folder(above, name, path or above, mode)
    try:
        yield place
    except OSError as error:
        file = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
        if path is None or place not in file:
            raise
        file = file.replace(place, path).replace(os.path.basename(place), name)
        raise OSError(error.errno, error.strerror, file) from None
    finally:
        import shutil  # here, not above: each mount loads this module, and stages only files

        try:
            shutil.rmtree(place, ignore_errors=True)
        finally:
            os.close(fd)


def _made_folder(above: str, name: str, path: str, mode: int) -> tuple[str, int]:
    """Return a new directory, and a descriptor that holds it; errors name `path`."""
    while True:
        place = os.path.join(above, staging_name(name))
        try:
            os.mkdir(place, mode)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        # Until it is locked, another process may take it for a dead process's directory.
        try:
            fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError as error:
            os.rmdir(place)
            raise OSError(error.errno, error.strerror, path) from None
        if hold(fd, place):
            return place, fd
        os.close(fd)


def move_new(old: str, new: str, folder: int | None = None) -> None:
    """Give a file its name. It may keep `old`, too. Raises FileExistsError if `new` exists."""
    try:
        os.link(old, new, src_dir_fd=folder, dst_dir_fd=folder)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if is_taken(new, folder):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new) from None
        os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)


def is_taken(name: str, folder: int | None) -> bool:
    """Return whether the directory (None: the current one) has an entry of this name."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def sync_folder(path: str, above: int | None = None) -> None:
    """Sync the names in a directory to disk, if its file system can."""
    with contextlib.suppress(OSError):
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        with closing_fd(os.open(path, flags, dir_fd=above)) as fd:
            os.fsync(fd)


def _refuse_irregular(path: str, follow: bool) -> None:
    """Raise PackError for a directory, a device or a FIFO, which a rename would replace."""
    try:
        mode = os.stat(path, follow_symlinks=follow).st_mode
    except OSError:  # no file; other failures show when the directory is opened
        return
    if stat.S_ISDIR(mode):
        raise PackError(f"{path}: is a directory; name a file")
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise PackError(f"{path}: cannot replace it: not a regular file")
