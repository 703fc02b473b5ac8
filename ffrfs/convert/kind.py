"""What kind of data set a path is, or is to become.

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

# "ffrecord": one without an index; a pack is an FFRecord file too. "jsonl": Examples, one per
# line. "parquet": a row for each. "webdataset": tar files of samples. "folder": a directory per
# record.
Kind = Literal["tfrecord", "ffrecord", "pack", "jsonl", "parquet", "webdataset", "folder"]

# Known by their names: a file, or a directory of them.
_NAMED: dict[Kind, str] = {"parquet": ".parquet", "webdataset": ".tar"}
# What a directory per record is known by.
FIRST_RECORD = "000000000"


def kind_of_name(name: str) -> Kind | None:
    """Tell what a file of that name is to be; None: the name does not say it.

    Of an FFRecord file it does not say whether it is to be a pack.
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
    """Tell what the data set `path` is, a file or a directory of files of records.

    Raises what opening it raises: FormatError, ChecksumError (of an index), OSError; and
    FormatError for a directory that a pack is in, which is no part of a data set.
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
        warnings.simplefilter("ignore", UnverifiedHeaderWarning)  # who opens it to read says it
        if not is_folder(path):
            return "pack" if _is_packed_folder(path) else "ffrecord"
        packed = next(filter(_is_packed_folder, pack_files(path)), None)
    if packed is not None:
        raise FormatError(f"{packed}: is a pack, not a part of {path}; convert it alone")
    return "ffrecord"


def _is_packed_folder(file: str) -> bool:
    with FileReader(file) as reader:
        if len(reader) == 0:  # not even an index
            return False
    with PackTree(file) as tree:
        return tree.volume.is_folder


def files_named(path: str, extension: str) -> list[str]:
    """Return the files that `path` means, one or those of a directory; [] if it means others.

    By names alone: what is in the directory must have the extension. Hidden names do not count,
    nor notes of other programs (_SUCCESS).
    """
    if not os.path.isdir(path):
        return [path] if path.endswith(extension) else []
    try:
        names = sorted(name for name in os.listdir(path) if not name.startswith("."))
    except OSError:  # opening it tells why
        return []
    others = [name for name in names if not name.endswith(extension)]
    if not all(name.startswith("_") for name in others):
        return []
    return [os.path.join(path, name) for name in names if name.endswith(extension)]


def is_tfrecord(path: str) -> bool:
    """Tell whether `path` is TFRecord, a file or a directory of them, rather than FFRecord.

    As a mount tells it, so by a name with ".tfrecord" in it, or by the first bytes; and a split of
    a TFDS directory is (DIR/train). What cannot be read is neither, and opening it tells why.
    Raises FormatError for a damaged TFDS directory.
    """
    try:
        name = os.fsencode(path)
        let_urls_in([path])
        if not is_url(path) and not os.path.lexists(path) and find_split(path) is not None:
            return True
        if not is_folder(path):
            return _native.is_tfrecord(name)
        packs, tfrecords = folder_files(name)
    except RemoteError:  # it would be waited for again
        raise
    except OSError:
        return False
    return bool(tfrecords) and not packs
