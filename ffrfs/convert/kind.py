"""Tells the kind of a data set by its path, or by the name of a target.

Not here: opening it (source.py).
"""

from __future__ import annotations

import os
import re
import warnings
from typing import Literal

from ffrfs import _native
from ffrfs._native import folder_files
from ffrfs.errors import FormatError, RemoteError, UnverifiedHeaderWarning
from ffrfs.folder.tree import PackTree, pack_files
from ffrfs.record.reader import FileReader
from ffrfs.remote.paths import is_folder, let_urls_in
from ffrfs.remote.url import is_url
from ffrfs.tfrecord.tfds import find_split

# "ffrecord": a file without an index; a pack is an FFRecord file too. "jsonl": an Example per
# line. "parquet": an Example per row. "webdataset": tar files of samples. "folder": a directory
# per record.
Kind = Literal["tfrecord", "ffrecord", "pack", "jsonl", "parquet", "webdataset", "folder"]

# Kinds that their names show: a file, or a directory of such files.
_NAMED: dict[Kind, str] = {"parquet": ".parquet", "webdataset": ".tar"}
# The name that shows a directory per record.
FIRST_RECORD = "000000000"


def kind_of_name(name: str) -> Kind | None:
    """Return the kind for a target of that name; None if the name does not show it.

    For an FFRecord file it does not show whether it shall be a pack.
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
    if is_url(path) and path.endswith((".jsonl", *_NAMED.values())):
        raise FormatError.at(path, "such files are not read from URLs; download it")
    if path.endswith(".jsonl") and not os.path.isdir(path):
        return "jsonl"
    for kind, extension in _NAMED.items():
        if files_named(path, extension):
            return kind
    if os.path.lexists(os.path.join(path, FIRST_RECORD)):
        return "folder"
    if is_tfrecord(path):
        return "tfrecord"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnverifiedHeaderWarning)  # reading it will warn
        if not is_folder(path):
            return "pack" if _is_packed_folder(path) else "ffrecord"
        packed = next(filter(_is_packed_folder, pack_files(path)), None)
    if packed is not None:
        raise FormatError(f"{packed}: is a pack, not a part of {path}; convert it alone")
    return "ffrecord"


def _is_packed_folder(file: str) -> bool:
    with FileReader(file) as reader:
        if len(reader) == 0:  # there is not even an index
            return False
    with PackTree(file) as tree:
        return tree.volume.is_folder


def files_named(path: str, extension: str) -> list[str]:
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
