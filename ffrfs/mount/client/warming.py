"""Warms a mount: the kernel learns all names, and gets all bytes that memory has room for.

    list the tree ─► the kernel knows every inode; then the engine pushes, front to back by the pack
    packs at URLs ─► first all blocks into the cache on disk, since only what is near is pushed

Listing touches the mount, so it hangs if the mount does. Blocking; one thread at a time.
Not here: pushing (native/prefetch/read_around.h).
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ffrfs.errors import MountError, is_damage
from ffrfs.folder.progress import Progress
from ffrfs.mount.client.control_client import ask, stats
from ffrfs.mount.kernel.mount_table import mount_at
from ffrfs.mount.kernel.mountpoint import canonical

_ASKING_S = 0.05
_FILLING_S = 0.5


@dataclass(frozen=True)
class Warmed:
    """Numbers of files, or of records of TFRecord files, also those that other programs warm."""

    files: int  # requested
    pushed: int  # the rest was cached already, or cannot be pushed
    left_out: int  # for want of memory


def warm(
    mountpoint: str, paths: Sequence[str] = (), progress: Progress = lambda *_: None
) -> Warmed:
    """Bring all files below these paths (none: the whole mount) into the kernel's page cache.

    A path begins at the root of the mount, or includes the mount point. Raises MountError if
    nothing of ffrfs is mounted there, its packs are at URLs and cannot be kept on disk, or a link
    leads a path out of the mount, and FileNotFoundError if a path is missing. If a part of packs at
    URLs cannot be fetched, the rest is warmed before MountError says so.
    """
    place = canonical(mountpoint)
    before = stats(place)
    if (there := mount_at(place)) is None or not there.is_ours:
        raise MountError(f"{place}: not mounted there any more")
    lost_mib = 0 if before.get("remote") is None else _fetch_all(place, progress)
    try:
        found = _bring(place, paths, before["warm"], progress)
    except (MountError, OSError):
        if not lost_mib:
            raise
    if lost_mib:
        raise MountError(
            f"{place}: {lost_mib:,} MiB of its packs could not be fetched into the cache; "
            f"see: ffrfs log {shlex.quote(place)}"
        )
    return found


def _bring(place: str, paths: Sequence[str], first: dict[str, int], progress: Progress) -> Warmed:
    """Bring the files on disk into memory. `first`: the mount's figures of warming before that."""
    tops = [_top(place, path) for path in paths] or [place]
    inos = [os.lstat(top).st_ino for top in tops]
    _list_all(tops, progress)
    found = first
    for ino in inos:  # one by one, because a worker has no long queue
        starts, begun = -1, 0
        while starts != _starts(told := stats(place)) or (
            (found := told["warm"])["begun"] < begun or found["left"] > 0
        ):
            found = told["warm"]
            if told.get("refusal"):
                raise MountError(f"{place}: {told['refusal']}")
            if starts != _starts(told):  # a worker that dies has lost its warmings
                starts = _starts(told)
                answer: dict[str, Any] = ask(place, "warm", ino=ino)
                # Parts for other programs may come first. An earlier daemon sends no "begun".
                begun = answer.get("begun", found["begun"] + 1)
            time.sleep(_ASKING_S)
            files = found["files"] - first["files"]
            progress(files - found["left"], files, 0, 0)
    grown = {name: found[name] - first[name] for name in found}
    return Warmed(grown["files"], grown["pushed"], grown["left_out"])


def _starts(told: dict[str, Any]) -> int:
    """Return how often the worker was replaced."""
    return told["worker"]["starts"] if told.get("worker") else 0


def _top(place: str, path: str) -> str:
    """Return the target of the path, which may lead through a symbolic link of the mount."""
    top = os.path.realpath(_inside(place, path), strict=True)
    if top != place and not top.startswith(place + "/"):
        raise MountError(f"{path}: a symbolic link leads it out of the mount at {place}")
    return top


def _inside(place: str, path: str) -> str:
    if os.path.isabs(path):  # symbolic links may lead to the mount
        way, name = os.path.split(os.path.normpath(path))
        real = os.path.join(os.path.realpath(way), name)
        path = real if real == place or real.startswith(place + "/") else path
    has_place = os.path.normpath(path) == place or path.startswith(place + "/")
    inside = os.path.normpath(path if has_place else os.path.join(place, path.lstrip("/")))
    if inside != place and not inside.startswith(place + "/"):
        raise MountError(f"{path}: not in the mount at {place}")
    return inside


def _list_all(tops: list[str], progress: Progress) -> None:
    """List the tree, because the kernel learns all inodes from the answers."""
    folders = [top for top in tops if os.path.isdir(top)]
    count = 0
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    count += 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError as error:
            if not is_damage(error):  # which the mount has logged
                raise
        progress(count, 0, 0, 0)


def _fetch_all(place: str, progress: Progress) -> int:
    """Fetch all of the packs into the cache on disk; return how many MiB do not come."""
    whole: Any = 0
    asked = fills = -1
    while True:
        told = stats(place)
        remote = told["remote"]
        # A daemon of an earlier version does not send all of these fields.
        if told["daemon_pid"] != asked:  # the next daemon knows nothing of an earlier request
            asked, fills = told["daemon_pid"], remote.get("fills", -1)
            whole = ask(place, "fill")["whole_bytes"]
        elif remote.get("filling", 1) and remote.get("fills", 0) != fills:
            left, given_up = remote["fill_left"], remote.get("fill_given_up", 0)
            progress(0, 0, max(whole - (left << 20), 0), whole)  # blocks of 1 MiB
            if left == given_up:  # also true if nothing is left
                return int(left)
        time.sleep(_FILLING_S)
