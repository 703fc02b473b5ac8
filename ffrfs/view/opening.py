"""Which collection a source is: a pack, a set, TFRecord files, a TFDS directory, or a mount.

A mount shows the packs that it was mounted from, opened again: pages read the packs, and only the
page about the mount itself asks its daemon for more than how they were put together.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import NamedTuple

from ffrfs.errors import MountError, OptionError
from ffrfs.folder.tree import OnConflict, PackTree, PathType
from ffrfs.mount.client.control_client import stats
from ffrfs.mount.client.found_mounts import find_mounts
from ffrfs.mount.kernel.mount_table import mount_at
from ffrfs.remote.url import is_url
from ffrfs.tfrecord.shards import is_tfrecord, shard_paths
from ffrfs.tfrecord.tfds import find_tfds
from ffrfs.view.collection import Collection, ExampleCollection, FileCollection


class Opened(NamedTuple):
    collection: Collection
    sources: list[str]
    mountpoint: str | None  # if the source is a mount


def open_sources(sources: PathType | Sequence[PathType]) -> Opened:
    """Open one source, or several of one kind as one data set.

    Raises FormatError, ChecksumError or OSError for an unsuitable one, OptionError without any.
    """
    several = [sources] if isinstance(sources, str | os.PathLike) else sources
    names = [os.fspath(one) for one in several]
    if not names:
        raise OptionError("nothing to view: name a pack, a set, TFRecord files or a mount")
    mountpoint = None
    on_conflict: OnConflict = "error"
    if len(names) == 1 and not is_url(names[0]):
        place = os.path.realpath(names[0])
        there = mount_at(place)  # a mount that was made at the place may have been moved
        for mount in find_mounts() if there is not None and there.is_ours else ():
            if mount.mountpoint == place:
                mountpoint, names = place, list(mount.packs)
                with contextlib.suppress(MountError):  # pages are shown of a dead mount, too
                    on_conflict = stats(place).get("on_conflict", on_conflict)
    files = _tfrecords(names)
    if files is None:
        # A mount that lacks shards of a set was made with allow_missing.
        tree = PackTree(names, on_conflict=on_conflict, allow_missing=mountpoint is not None)
        return Opened(FileCollection(tree), names, mountpoint)
    title = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more"
    return Opened(ExampleCollection(title, files), names, mountpoint)


def _tfrecords(names: Sequence[str]) -> list[str] | None:
    """Return the TFRecord files of `names`, or None if they are packs."""
    if len(names) == 1 and os.path.isdir(names[0]) and (found := find_tfds(names[0])):
        splits = filter(lambda split: split.shard_paths, found.splits.values())
        return [file for split in splits for file in split.files] or shard_paths(names[0])
    if not all(is_tfrecord(name) for name in names):
        return None
    return [file for name in names for file in shard_paths(name)]
