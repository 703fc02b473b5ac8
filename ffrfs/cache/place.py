"""The cache directory itself: its two levels, its owner, and the test for files of ffrfs.

    DIR/usage                  how many bytes are held, and locks
    DIR/xx/<64 digits>.data    an object; .state: which blocks are present; .pin: keep it
    DIR/listings/<64 digits>   what a directory of objects held (listings.py)

In a directory of one user, files have mode 0600 and directories 0700; only that user and root
may write any of them. In a directory that a group shares (setgid and writable for the group:
chmod g+ws), the group may write all of them. So each member decides what the others read, and
ffrfs uses such a directory only if the user has asked for a shared one.

A name alone proves nothing: a file is opened only if it is regular, has one name, and belongs
to us or to the group that shares the directory.

Concurrency: any thread; the only state is the descriptor of the directory.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator

from ffrfs.cache.sparse import punch_hole
from ffrfs.errors import CacheError, describe

_FOLDER = re.compile(r"[0-9a-f]{2}")
_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
OTHER = "choose another with --cache-dir or FFRFS_CACHE_DIR"


def check_place(path: str, *, shared: bool = False) -> None:
    """Raise the CacheError of a directory that cannot be used, or made; no file is left."""
    above = os.path.abspath(path)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    with contextlib.ExitStack() as ends:
        place, first = None, path  # `first`: the first name that would be made
        if os.path.lexists(path):
            place, first = CachePlace(path, shared=shared), os.path.join(path, "usage")
            ends.callback(place.close)
        try:
            file = ends.enter_context(tempfile.TemporaryFile(dir=above))
        except OSError as error:
            raise CacheError.at(first, f"{error.strerror}; {OTHER}") from None
        if place is not None:
            place.check_holes(file.fileno())


class CachePlace:
    """An open cache directory. `make`: make it if it is missing, with mode 0700.

    `shared`: other users may write to it. Raises CacheError.
    """

    def __init__(self, path: str, *, make: bool = True, shared: bool = False) -> None:
        self.path = path
        self._advice = f"; {OTHER}" if make else ""
        with self.naming():
            if make:
                os.makedirs(path, 0o700, exist_ok=True)
            self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._info = info = os.fstat(self.fd)
        self.is_shared = bool(
            shared and info.st_mode & stat.S_ISGID and info.st_mode & stat.S_IWGRP
        )
        self._may_be_of_others = shared
        try:
            self._check(info)
        except BaseException:
            os.close(self.fd)
            raise

    def _check(self, info: os.stat_result) -> None:
        if info.st_mode & stat.S_IWOTH:
            mend = "chmod o-w it, or " if _may_change(info) else ""
            raise CacheError.at(self.path, f"writable for every user: {mend}{OTHER}")
        self._refuse_others(info, self.path)

    def _refuse_others(self, info: os.stat_result, shown: str) -> None:
        if self._may_be_of_others:
            return
        mend = ""
        if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            who = f"group {info.st_gid} may"
            mend = "chmod g-w it, " if _may_change(info) else ""
        elif info.st_uid not in (os.geteuid(), 0):
            who = f"its owner (uid {info.st_uid}) may"
        else:
            return
        raise CacheError.at(
            shown,
            f"{who} write to it, and so change the bytes you read: {mend}{OTHER}, or trust them "
            "(--cache-shared or FFRFS_CACHE_SHARED=1)",
        )

    @property
    def mode(self) -> int:
        """The mode of new files."""
        return 0o660 if self.is_shared else 0o600

    def close(self) -> None:
        os.close(self.fd)

    # -- names

    @staticmethod
    def relative(name: str, ending: str) -> str:
        return f"{name[:2]}/{name}.{ending}"

    def shown(self, name: str, ending: str) -> str:
        return os.path.join(self.path, self.relative(name, ending))

    def folders(self) -> list[str]:
        """Return the names of the directories that hold objects."""
        return [name for name in sorted(os.listdir(self.fd)) if _FOLDER.fullmatch(name)]

    @contextlib.contextmanager
    def opened_folder(self, folder: str) -> Iterator[int]:
        """Yield a descriptor of a directory in the cache, never of one behind a link."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(folder, flags, dir_fd=self.fd)
        try:
            yield fd
        finally:
            os.close(fd)

    def make_folder(self, folder: str) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700, dir_fd=self.fd)
            if self.is_shared:  # mkdir() has applied the umask
                os.chmod(folder, 0o2770, dir_fd=self.fd)
        if not stat.S_ISDIR(os.stat(folder, dir_fd=self.fd, follow_symlinks=False).st_mode):
            raise CacheError.at(os.path.join(self.path, folder), "not a directory; remove it")

    # -- files

    def open_file(self, relative: str, flags: int = 0) -> int:
        """Open to read and write. Raises FileNotFoundError, or CacheError for a foreign file."""
        shown = os.path.join(self.path, relative)
        with self.naming(shown, but=(FileNotFoundError, FileExistsError)):
            if folder := os.path.dirname(relative):  # it may be from when the cache was shared
                info = os.stat(folder, dir_fd=self.fd, follow_symlinks=False)
                self._refuse_others(info, os.path.join(self.path, folder))
            fd = os.open(relative, _OPEN | flags, self.mode, dir_fd=self.fd)
            try:
                if flags & os.O_CREAT:
                    self._allow_group(fd)
                self._check_file(fd, shown)
            except BaseException:
                os.close(fd)
                raise
        return fd

    def _allow_group(self, fd: int) -> None:
        info = os.fstat(fd)
        if self.is_shared and info.st_uid == os.geteuid() and info.st_mode & 0o777 != self.mode:
            os.fchmod(fd, self.mode)

    def _check_file(self, fd: int, shown: str) -> None:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise CacheError.at(shown, f"not a regular file; remove it, or {OTHER}")
        if info.st_nlink > 1:
            raise CacheError.at(shown, f"has a second hard link; remove it, or {OTHER}")
        is_of_group = self.is_shared and info.st_gid == self._info.st_gid
        if info.st_uid != os.geteuid() and not is_of_group:
            raise CacheError.at(
                shown,
                f"belongs to another user (uid {info.st_uid}); share the directory by a group "
                f"(chgrp, chmod g+ws, --cache-shared), or {OTHER}",
            )
        self._refuse_others(info, shown)

    def is_same(self, fd: int, relative: str) -> bool:
        """Return whether the open file still has this name."""
        try:
            named = os.stat(relative, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(fd))

    def exists(self, relative: str) -> bool:
        try:
            os.stat(relative, dir_fd=self.fd, follow_symlinks=False)
        except OSError:
            return False
        return True

    def unlink(self, relative: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(relative, dir_fd=self.fd)

    def check_holes(self, fd: int) -> None:
        """Raise CacheError if blocks could not be removed; a hole is punched beyond the end."""
        try:
            punch_hole(fd, 1 << 20, 4096)
        except OSError as error:
            raise CacheError.at(
                self.path, f"its file system cannot punch holes ({describe(error)}); {OTHER}"
            ) from None

    @contextlib.contextmanager
    def naming(
        self, shown: str | None = None, but: tuple[type[OSError], ...] = ()
    ) -> Iterator[None]:
        """Raise OSErrors as CacheError, with the path and advice."""
        try:
            yield
        except OSError as error:
            if isinstance(error, (CacheError, *but)):
                raise
            reason = error.strerror or str(error)
            raise CacheError.at(shown or self.path, f"{reason}{self._advice}") from error


def _may_change(info: os.stat_result) -> bool:
    return os.geteuid() in (info.st_uid, 0)
