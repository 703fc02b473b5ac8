"""The versions of a mount's pack files, by which a file is seen to have been replaced since.

A mount goes on with the file that it has opened. Not here: objects at URLs, which the fetcher
compares. Concurrency: no state. Blocking: a dead file server holds up the caller.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping

from ffrfs.remote.url import is_url

_FILES_MAX = 1000  # of a mount; later ones are not compared

MOUNT_AGAIN = "unmount, and mount it again"  # the advice for a replaced pack

Version = list[int]  # inode, size, time; a list, as JSON gives it back


def versions_of(packs: Iterable[str]) -> dict[str, Version]:
    """Return the versions of the files at `packs`, which are files or directories of them."""
    found: dict[str, Version] = {}
    for pack in packs:
        for path in () if is_url(pack) else _files(pack):
            version = _version_of(path)
            if version is not None:
                found[path] = version
            if len(found) == _FILES_MAX:
                return found
    return found


def replaced(versions: Mapping[str, Version], pids: Iterable[int] = ()) -> str | None:
    """Return a file that was replaced or has changed, or None.

    To remove or rename it is no change. `pids`: the processes that then still have it open.
    """
    missing = {}  # by inode
    for path, version in versions.items():
        now = _version_of(path)
        if now is None:
            missing[version[0]] = path
        elif now != version:
            return path
    for fd in _open_files(pids) if missing else ():
        found = _version_of(fd)
        # An unchanged pack of another file system may have the same inode.
        if found is not None and found[0] in missing and found not in versions.values():
            return missing[found[0]]
    return None


def _open_files(pids: Iterable[int]) -> Iterator[str]:
    for pid in pids:
        with contextlib.suppress(OSError):  # another user's, or it has ended
            yield from (entry.path for entry in os.scandir(f"/proc/{pid}/fd"))


def _files(pack: str) -> Iterator[str]:
    try:
        names = sorted(name for name in os.listdir(pack) if not name.startswith("."))
    except OSError:
        yield pack
        return
    for name in names:
        if not name.endswith(".idx"):  # a sidecar, which the mount itself may write
            yield os.path.join(pack, name)


def _version_of(path: str) -> Version | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return [status.st_ino, status.st_size, status.st_mtime_ns]
