"""Tells the kind of a data set by its path, or by the name of a target.

Not here: opening it (source.py).
"""

from __future__ import annotations

import os
import re
from typing import Literal

from ffrfs._native import Pack
from ffrfs.errors import FormatError
from ffrfs.folder.tree import pack_files
from ffrfs.remote.paths import is_folder
from ffrfs.remote.url import is_url
from ffrfs.tfrecord.shards import is_tfrecord

# "ffrecord": a file without an index; a pack is an FFRecord file too. "jsonl": an Example per
# line. "parquet", "csv", "arrow": an Example per row. "webdataset": tar files of samples. "folder":
# a directory per record. CSV and Arrow are read only.
Kind = Literal[
    "tfrecord", "ffrecord", "pack", "jsonl", "parquet", "webdataset", "folder", "csv", "arrow"
]

# Kinds that their names show: a file, or a directory of such files.
_NAMED: dict[Kind, str] = {"parquet": ".parquet", "webdataset": ".tar"}
_READ: dict[Kind, str | tuple[str, ...]] = {
    **_NAMED,
    "csv": (".csv", ".csv.gz"),
    "arrow": (".arrow", ".feather"),
}
# The name that shows a directory per record.
FIRST_RECORD = "000000000"


def kind_of_name(name: str) -> Kind | None:
    """Return the kind for a target of that name; None if the name does not show it.

    For an FFRecord file it does not show whether it is to be a pack.
    """
    if name.endswith(".ffr"):
        return "ffrecord"
    if name.endswith(".jsonl"):
        return "jsonl"
    for kind, extension in _NAMED.items():
        if name.endswith(extension):
            return kind
    return "tfrecord" if re.search(r"\.tfrecords?(\.gz)?$", name) else None


def kind_of(path: str) -> Kind:
    """Return the kind of the data set `path`, a file or a directory of files of records.

    Raises the errors of opening it: FormatError, ChecksumError (for an index), OSError; and
    FormatError for a directory that contains a pack, which is no part of a data set.
    """
    if is_url(path) and (path.endswith(".jsonl") or any(map(path.endswith, _READ.values()))):
        raise FormatError.at(path, "such files are not read from URLs; download it")
    if path.endswith(".jsonl") and not os.path.isdir(path):
        return "jsonl"
    for kind, extension in _READ.items():
        if files_named(path, extension):
            return kind
    if os.path.lexists(os.path.join(path, FIRST_RECORD)):
        return "folder"
    if is_tfrecord(path):
        return "tfrecord"
    files = pack_files(path)
    packed = next((file for file in files if Pack(os.fsencode(file)).is_folder), None)
    if not is_folder(path):
        return "ffrecord" if packed is None else "pack"
    if packed is not None:
        raise FormatError(f"{packed}: is a pack, not a part of {path}; convert it alone")
    return "ffrecord"


def files_named(path: str, extension: str | tuple[str, ...]) -> list[str]:
    """Return the files of `path`, one or those of a directory; [] if it is of another kind.

    Names alone decide: all files of the directory must have the extension. Hidden names do not
    count, nor notes of other programs (_SUCCESS).
    """
    if not os.path.isdir(path):
        return [path] if path.endswith(extension) else []
    try:
        names = sorted(name for name in os.listdir(path) if not name.startswith("."))
    except OSError:  # opening it reports the reason
        return []
    others = [name for name in names if not name.endswith(extension)]
    if not all(name.startswith("_") for name in others):
        return []
    return [os.path.join(path, name) for name in names if name.endswith(extension)]
