"""Whether a path is TFRecord, and its files: one, a list of them, or a directory of shards.

The path may also be a URL of one of those.

mnist/3.0.1/train means a split of the TFDS directory mnist/3.0.1 (tfds.py).

Concurrency: functions without state.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ffrfs import _native
from ffrfs._native import folder_files
from ffrfs.errors import FormatError, RemoteError
from ffrfs.remote.named_store import kept_in_store
from ffrfs.remote.paths import is_folder, let_urls_in
from ffrfs.remote.url import is_url
from ffrfs.tfrecord.tfds import find_split

PathType = str | os.PathLike[str]


def shard_paths(path: PathType | Sequence[PathType]) -> list[str]:
    """Return the files in order.

    A directory gives the files whose names contain ".tfrecord" (train.tfrecord-00001-of-00010),
    by the bytes of their names, without sidecars and hidden files; FormatError if there
    are none. The contents are not checked. A split of a TFDS directory gives its files;
    FormatError if some are missing.
    """
    if not isinstance(path, str | os.PathLike):
        names = [os.fspath(one) for one in path]
        let_urls_in(names)
        return names
    name = os.fspath(path)
    let_urls_in([name])
    if not is_folder(name):
        split = None if is_url(name) or os.path.lexists(name) else find_split(name)
        return [name] if split is None else split.files
    _, files = folder_files(os.fsencode(name))
    if not files:
        hint = "" if is_url(name) else f"; to pack it: ffrfs pack {name} FILE.ffr"
        raise FormatError.at(name, f"holds no TFRecord files (*.tfrecord*){hint}")
    return [kept_in_store(os.fsdecode(file)) for file in files]


def is_tfrecord(path: str) -> bool:
    """Return whether `path` is TFRecord, a file or a directory of them, rather than FFRecord.

    It decides as a mount does, by a name with ".tfrecord" in it, or by the first bytes; a split
    of a TFDS directory is TFRecord (DIR/train). An unreadable path is not, and opening it reports
    the reason. Raises FormatError for a damaged TFDS directory.
    """
    try:
        name = os.fsencode(path)
        let_urls_in([path])
        if not is_url(path) and not os.path.lexists(path) and find_split(path) is not None:
            return True
        if not is_folder(path):
            return _native.is_tfrecord(name)
        packs, tfrecords = folder_files(name)
    except RemoteError:  # opening it again would wait again
        raise
    except OSError:
        return False
    return bool(tfrecords) and not packs
