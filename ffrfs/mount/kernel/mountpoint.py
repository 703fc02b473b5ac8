"""The place of a mount: its canonical name, and whether it may be used.

A mount point's name is made canonical without touching the mount point itself: there
may be a mount with a dead or stalled daemon behind it. The same place has the same name, so
`ffrfs umount` finds the mount of `ffrfs mount` from any directory.
"""

from __future__ import annotations

import errno
import os
import shlex

from ffrfs.errors import MountError
from ffrfs.mount.kernel.mount_table import mount_at
from ffrfs.remote.url import is_url

_LINKS_MAX = 40  # the kernel's own limit


def canonical(path: str) -> str:
    """Return the absolute name of `path` without links, `.` and `..`; it need not exist.

    Raises MountError for a URL, which cannot be a mount point, and for no name at all, which
    would be the working directory.
    """
    if not path:
        raise MountError("the name of the mount point is empty; give the directory of a mount")
    if is_url(path):
        raise MountError(f"{path}: is a URL; give the directory where it is mounted")
    for _ in range(_LINKS_MAX):
        parent, name = os.path.split(path.rstrip("/") or "/")
        if name in ("", ".", ".."):
            return os.path.realpath(path)
        path = os.path.join(os.path.realpath(parent), name)
        try:
            link = os.readlink(path)
        except OSError:  # not a link, or missing: the name is canonical
            return path
        path = os.path.join(os.path.dirname(path), link)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def is_occupied(mountpoint: str) -> bool:
    """Return whether anything is in the directory. Raises OSError, or waits if it hangs."""
    with os.scandir(mountpoint) as entries:
        return next(entries, None) is not None


def prepare(mountpoint: str, *, nonempty: bool) -> bool:
    """Check that a tree may be mounted there; return True if the directory was made for it.

    The caller has removed dead mounts (dead_mount.py). Raises MountError if an ffrfs mount
    is there, and plain OSErrors for a directory that cannot be used.
    """
    there = mount_at(mountpoint)
    if there is not None and there.is_ours:
        raise MountError(
            f"{mountpoint}: {there.source} is already mounted there by ffrfs; "
            f"remove it with: ffrfs umount {shlex.quote(mountpoint)}"
        )
    try:
        occupied = is_occupied(mountpoint)
    except FileNotFoundError:
        os.mkdir(mountpoint)
        return True
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            raise MountError(
                f"{mountpoint}: a dead FUSE mount is there; "
                f"remove it with: fusermount3 -u {shlex.quote(mountpoint)}"
            ) from None
        raise
    if occupied and not nonempty:
        text = "not empty: choose another mount point, or cover its files with -o nonempty"
        raise OSError(errno.ENOTEMPTY, text, mountpoint)
    return False


def remove(mountpoint: str) -> None:
    """Remove a directory that prepare() made; it may be gone, or in use again."""
    try:
        os.rmdir(mountpoint)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EBUSY):
            raise
