"""Opens sources by their names, and lists the files to pack.

Not here: walking directories (source.py), archives (archive.py), packs (pack_source.py).
Concurrency: that of the sources.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from ffrfs._native import EntryList
from ffrfs.errors import PackError
from ffrfs.packing.sources.contents import ADVICE, Contents
from ffrfs.packing.sources.existing_set import ExistingTree
from ffrfs.packing.sources.folder_lister import FolderIdentity
from ffrfs.packing.sources.options import PackOptions
from ffrfs.packing.sources.order import batches, number
from ffrfs.packing.sources.source import Source

if TYPE_CHECKING:
    from ffrfs.packing.sources.archive_progress import ArchiveProgress

Kind: TypeAlias = Literal["folder", "archive", "packs"]

# The numbers of so many files are in memory at a time.
_BATCH_COUNT = 1 << 16


def open_contents(  # noqa: PLR0913 - what each kind needs
    kind: Kind,
    sources: Sequence[str],
    options: PackOptions,
    *,
    spool: str,
    forbidden: FolderIdentity | None = None,
    existing: ExistingTree | None = None,
    progress: ArchiveProgress | None = None,
) -> Contents:
    """List the files of `sources` to pack, and number their records.

    `forbidden`: the directory that is written to. `existing`: the packs that are added to. `spool`:
    a path beside which there is room for a copy of a pipe. Raises PackError, OSError.
    """
    contents: Contents
    if kind == "packs":
        from ffrfs.packing.sources.pack_source import PackSource  # with NumPy

        contents = PackSource(sources, options, forbidden=forbidden)
    elif options.on_conflict != "error" or options.allow_missing:
        raise PackError(f"{sources[0]}: on_conflict and allow_missing are for packs")
    elif kind == "folder":
        advice = existing.advice if existing else ADVICE
        contents = Source(sources[0], options, forbidden=forbidden, advice=advice)
    elif options.order is not None:
        raise PackError(f"{sources[0]}: an archive keeps its own order")
    else:
        # Imported here, because only archives need decompressors.
        from ffrfs.packing.sources.archive import ArchiveSource
        from ffrfs.packing.sources.archive_progress import ArchiveProgress

        contents = ArchiveSource(
            sources[0],
            options,
            target=spool,
            progress=progress or ArchiveProgress(lambda *_: None),
        )
    try:
        if existing is not None:
            contents.number()
            existing.refuse_listed(contents)
        _number(contents, options)
    except BaseException:
        contents.close()
        raise
    return contents


def _number(contents: Contents, options: PackOptions) -> None:
    """Number the records of the list. Raises PackError if it has no file."""
    listed = contents.entries
    if options.exclude and not (listed.file_count or listed.link_count):
        raise nothing_left(contents.name)
    if options.dedup:
        from ffrfs.packing.sources.duplicates import share_duplicates  # with NumPy

        share_duplicates(contents, options.threads)
    else:
        contents.share()
    if options.order is None:
        contents.number()
    else:
        number(listed, options.order)
    if options.listing is not None:
        options.listing(_paths(listed))


def nothing_left(source: str) -> PackError:
    return PackError(f"{source}: no file is left to pack; check the patterns of --exclude")


def _paths(listed: EntryList) -> Iterator[str]:
    """Yield the paths of the files: those with a record of their own first, in their order."""
    import numpy as np  # here, because packing needs it only for lists, and importing takes 0.1 s

    has_own = np.zeros(listed.file_count, bool)
    for files in batches(listed):
        has_own[files] = True
        yield from map(os.fsdecode, listed.paths(files))
    others = np.flatnonzero(~has_own)
    for start in range(0, len(others), _BATCH_COUNT):
        yield from map(os.fsdecode, listed.paths(others[start : start + _BATCH_COUNT].tolist()))
