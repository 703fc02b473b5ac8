"""The files of a path: one TFRecord file, a list of them, or a directory of shards.

The path may also be a URL of one of those.

mnist/3.0.1/train means a split of the TFDS directory mnist/3.0.1 (tfds.py).

Concurrency: functions without state.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ffrfs._native import folder_files
from ffrfs.errors import FormatError
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
    return [os.fsdecode(file) for file in files]
