"""Decides whether a path is packs to read, or data to pack.

Concurrency: any thread.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from ffrfs._native import Pack, is_pack_name
from ffrfs.errors import ChecksumError, FormatError, OptionError
from ffrfs.packing.sources.opening import Kind
from ffrfs.packing.sources.path_list import STANDARD_INPUT
from ffrfs.remote.url import is_url

_SUFFIX = ".ffr"
_SIDECAR_SUFFIX = ".ffr.idx"


def kind_of(sources: Sequence[str]) -> Kind:
    """Return the kind of the sources. Raises OptionError if they are of several kinds, OSError."""
    others = [name for name in sources if name == STANDARD_INPUT or not holds_packs(name)]
    if not others:
        return "packs"
    if len(sources) > 1:
        if others[0] != STANDARD_INPUT:
            os.stat(others[0])  # raises if it is missing
        raise OptionError(f"{others[0]} is neither a pack nor a pack set; name it alone")
    is_file = os.path.exists(others[0]) and not os.path.isdir(others[0])
    return "archive" if is_file or others[0] == STANDARD_INPUT else "folder"


def holds_packs(path: str) -> bool:
    """Return whether `path` is a pack, or a pack set: a directory of nothing but packs of sets.

    Any other directory is data. Raises OSError if it cannot be read.
    """
    if is_url(path):  # nothing else is read from there
        return True
    if os.path.isdir(path):
        return _is_pack_set(path)
    if not os.path.isfile(path):  # for example a pipe
        return False
    try:
        return Pack(os.fsencode(path)).is_folder or path.endswith(_SUFFIX)
    except (FormatError, ChecksumError):
        return path.endswith(_SUFFIX)  # then it is a damaged pack


def _is_pack_set(folder: str) -> bool:
    pack_count = 0
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.startswith(".") or entry.name.endswith(_SIDECAR_SUFFIX):
                continue
            if not is_pack_name(os.fsencode(entry.name)) or not entry.is_file():
                return False
            # Opening the set names a damaged pack.
            with contextlib.suppress(FormatError, ChecksumError):
                if Pack(os.fsencode(entry.path)).shard is None:
                    return False
            pack_count += 1
    return pack_count > 0
