"""Staging names, ".NAME.XXXXXXXXXXXXXXXX.partial", and files that killed processes leave there.

A process that makes a file or directory of such a name holds a lock on it (flock) until it has
its real name, as native/record/staged_file.cc does. The kernel drops the lock of a killed process,
so the next command that writes into the directory removes all that no process has locked.

A lock may not reach other machines (NFS). So the first half of the digits names the machine, and
other machines leave the file alone. If the file system has no locks, nothing is removed.

A symbolic link cannot be locked. It is removed, and if its process lives, that makes it again.

Concurrency: any thread, any process.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import stat

from ffrfs.files.closing import closing_fd

# A staging name has this many bytes of the name at most, so that it stays below NAME_MAX.
_NAME_PART_SIZE = 200
_MACHINE_ID = "/etc/machine-id"
_MACHINE_ID_SIZE = 64
_NAME = re.compile(r"\..+\.([0-9a-f]{8})[0-9a-f]{8}\.partial", re.DOTALL)
_FOLDERS_MAX = 4096
_FNV_OFFSET, _FNV_PRIME = 2166136261, 16777619  # FNV-1a
_OTHERS_MAY_WRITE = 0o022

# Directories (device, inode) that this process has searched: once is enough.
_seen: set[tuple[int, int]] = set()


def staging_name(name: str) -> str:
    part = os.fsdecode(os.fsencode(name)[:_NAME_PART_SIZE])
    return f".{part}.{_machine()}{os.urandom(4).hex()}.partial"


def hold(fd: int, name: str, folder: int | None = None) -> bool:
    """Lock the open file that was made as `name`; return False if it needs another name.

    Before it is locked, another process may take it for a dead process's file and remove it.
    """
    return take_lock(fd) and is_at(fd, name, folder)


def take_lock(fd: int, *, shared: bool = False) -> bool:
    """Lock an open file or directory, if its file system can; False: another process has it."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks, where nothing is removed
    return True


def remove_leftovers(folder: str | int, *, again: bool = False) -> None:
    """Remove files of dead processes of this user and machine from a directory.

    A process searches a directory once, unless `again`. Failures are ignored.
    """
    with contextlib.suppress(OSError):
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        if isinstance(folder, int):  # it may be open with O_PATH, which cannot be listed
            fd = os.open(".", flags, dir_fd=folder)
        else:
            fd = os.open(folder, flags)
        with closing_fd(fd):
            info = os.fstat(fd)
            key = (info.st_dev, info.st_ino)
            if key in _seen and not again:
                return
            if len(_seen) >= _FOLDERS_MAX:
                _seen.clear()
            _seen.add(key)
            for name in os.listdir(fd):
                match = _NAME.fullmatch(name)
                if match is not None and match[1] == _machine():
                    with contextlib.suppress(OSError):
                        _remove_dead(fd, name, is_private=_is_private(info))


def remove_leftovers_beside(path: str) -> None:
    """Run remove_leftovers() in the directory in which the file `path` will be written."""
    with contextlib.suppress(ValueError):  # `path` is not a valid path
        remove_leftovers(os.path.dirname(os.path.realpath(path)))


def _remove_dead(folder: int, name: str, *, is_private: bool) -> None:
    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    is_folder = stat.S_ISDIR(info.st_mode)
    if info.st_uid != os.geteuid():
        return
    if stat.S_ISLNK(info.st_mode):  # it cannot be locked: a live process makes it again
        os.unlink(name, dir_fd=folder)
        return
    if not (is_folder or stat.S_ISREG(info.st_mode)):
        return
    if is_folder and not is_private:
        return
    # NFS locks a file exclusively only if it is open for writing.
    mode = os.O_RDONLY | os.O_DIRECTORY if is_folder else os.O_RDWR
    flags = mode | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with closing_fd(os.open(name, flags, dir_fd=folder)) as fd:
        if not os.path.samestat(info, os.fstat(fd)):
            return
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError: a process holds it
        if not is_at(fd, name, folder):
            return
        if is_folder:
            import shutil  # here, not above: each mount loads this module

            shutil.rmtree(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)


def is_at(fd: int, name: str, folder: int | None = None) -> bool:
    """Return whether the open file `fd` has that name."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(fd))


def _is_private(info: os.stat_result) -> bool:
    """Return whether no other user can rename directories in this one.

    Another user could not remove our directory with its files, but make us do it by its name.
    """
    may_rename = info.st_mode & _OTHERS_MAY_WRITE and not info.st_mode & stat.S_ISVTX
    return info.st_uid in (os.geteuid(), 0) and not may_rename


@functools.cache
def _machine() -> str:
    """Return eight digits that differ between machines."""
    number = b""
    with contextlib.suppress(OSError), open(_MACHINE_ID, "rb") as file:
        number = file.read(_MACHINE_ID_SIZE)
    digest = _FNV_OFFSET
    for byte in os.fsencode(os.uname().nodename) + bytes(1) + number:
        digest = (digest ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return f"{digest:08x}"
