"""Which files a path means: one TFRecord file, a list of them, or a directory of shards.

mnist/3.0.1/train means a split of the TFDS directory mnist/3.0.1 (tfds.py).

Concurrency: functions without state.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ffrfs._native import folder_files
from ffrfs.errors import FormatError
from ffrfs.tfrecord.tfds import find_split

PathType = str | os.PathLike[str]


def shard_paths(path: PathType | Sequence[PathType]) -> list[str]:
    """Return the files in order.

    Of a directory those whose names contain ".tfrecord" (train.tfrecord-00001-of-00010),
    by the bytes of their names, without sidecars and hidden files; FormatError if there
    are none. Nothing is said of what the files hold. Of a TFDS directory's split its files;
    FormatError if some are not there.
    """
    if not isinstance(path, str | os.PathLike):
        return [os.fspath(one) for one in path]
    name = os.fspath(path)
    if not os.path.isdir(name):
        split = None if os.path.lexists(name) else find_split(name)
        return [name] if split is None else split.files
    _, files = folder_files(os.fsencode(name))
    if not files:
        raise FormatError.at(
            name, f"holds no TFRecord files (*.tfrecord*); to pack it: ffrfs pack {name} FILE.ffr"
        )
    return [os.fsdecode(file) for file in files]
