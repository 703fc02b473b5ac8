"""extract: writes files of a data set as ordinary files.

Not here: writing them (ffrfs/folder/extract.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from ffrfs.errors import ChecksumError
from ffrfs.folder import extract as trees
from ffrfs.folder.progress import Progress
from ffrfs.folder.tree import OnConflict, PackTree, PathType


def extract(  # noqa: PLR0913 - source, destination and options
    pack: PathType | Sequence[PathType],
    destination: PathType,
    paths: PathType | Sequence[PathType] = (),
    *,
    on_conflict: OnConflict = "error",
    allow_missing: bool = False,
    on_error: Literal["raise", "skip"] = "raise",
    progress: Progress | None = None,
) -> list[str]:
    """Write `paths` of `pack` (none: all files) below the directory `destination`.

    Files get the packed modes, times and links, under their whole paths. `pack`: as
    `PackedFolder` takes it, or TFRecord. No file is overwritten, or written elsewhere.
    `progress`: called with files done, files in all, bytes done, bytes in all; 0 in all:
    unknown.

    Damaged files are left out and all others written; then it raises ChecksumError, which
    names the first and counts the others, or with `on_error="skip"` returns a list with a
    line for each. Raises PathNotFoundError and FormatError before anything is written;
    FileExistsError at the first existing file; files that were written before stay.
    """
    wanted = [paths] if isinstance(paths, str | os.PathLike) else paths
    with PackTree(pack, on_conflict=on_conflict, allow_missing=allow_missing) as tree:
        bad = trees.extract(tree, destination, wanted, progress)
    if bad and on_error == "raise":
        more = f" (and {len(bad) - 1:,} more damaged files)" if len(bad) > 1 else ""
        raise ChecksumError(f"{bad[0]}{more}")
    return bad
