"""Sidecars of packs: the mapped index of a pack that has none inside, in a separate file.

A sidecar is beside its pack (PACK.idx) or, if that directory is read-only, in the user's cache
directory. The native core's own parser makes it once from the pickle, and it is used only for
the very pack that it was made from.

Not here: its format, and checking that it is sound (native core), other files' sidecars
(ffrfs.tfrecord).
Concurrency: any thread and process; a sidecar appears whole, and the last writer wins.
"""

from __future__ import annotations

import os

from ffrfs import _native
from ffrfs._native import Pack, sidecar_paths
from ffrfs.errors import PackWarning, warn
from ffrfs.files import index_cache
from ffrfs.files.kind import is_pack_index
from ffrfs.files.replacing import refuse_foreign

PathType = str | os.PathLike[str]


def carries_index(pack: PathType) -> bool:
    """Return whether `pack` has a sound index inside. Raises FormatError, OSError for no pack."""
    return Pack(os.fsencode(pack)).index_kind == "pack"


def write_sidecar(pack: PathType, chunks: bool = False) -> str:
    """Write the sidecar of `pack`, replacing an existing one; return its path.

    `chunks`: with checksums of every 1 MiB of the larger records, which are all read for
    that. It goes beside the pack or, if that is read-only, into the cache directory. Raises
    FormatError, UnsafeIndexError, ChecksumError for a pack that is not sound, PackError if
    another kind of file has its name, OSError.
    """
    name = os.fsencode(pack)
    beside, *elsewhere = sidecar_paths(name)
    refuse_foreign(os.fsdecode(beside), is_pack_index, "an index")
    try:
        _native.write_sidecar(name, beside, chunks)
    except OSError:
        if _is_writable(os.path.dirname(beside)) or not elsewhere:
            raise
    else:
        return os.fsdecode(beside)
    cached = elsewhere[0]
    index_cache.prepare_for(os.fsdecode(cached))
    _native.write_sidecar(name, cached, chunks)
    return os.fsdecode(cached)


def ensure_sidecar(pack: PathType, indexed_count: int) -> str | None:
    """Write the sidecar of a pack that needs one; return its path, or None if it does not.

    A pack of over `indexed_count` records without a sound index of either kind needs one.
    Warns (PackWarning) of an index that was stale or broken. Raises as write_sidecar().
    """
    found = Pack(os.fsencode(pack))
    if found.index_kind or not found.is_folder or found.record_count <= indexed_count:
        return None
    if found.warning:
        warn(PackWarning(found.warning), stacklevel=2)
    return write_sidecar(pack)


def _is_writable(folder: bytes) -> bool:
    return os.access(folder or b".", os.W_OK | os.X_OK, effective_ids=True)
